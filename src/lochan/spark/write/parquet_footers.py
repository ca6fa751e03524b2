"""The list of columns in a Parquet footer: where each has, or would have, its field id.

A footer is one struct of Thrift's compact protocol. Only what is needed of it is decoded, all else
is stepped over, so that ids can be put between bytes that stay as they are. The bytes may be
broken: every length is compared with what is left, and an error is a ValueError. Structures may be
nested to any depth; no function here is recursive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

# Types of the compact protocol. A boolean field has its value in its type.
_STOP: Final = 0
_BOOLEANS: Final = (1, 2)
_BYTE: Final = 3
_NUMBERS: Final = (4, 5, 6)
_I32: Final = 5
_DOUBLE: Final = 7
_BINARY: Final = 8
_LISTS: Final = (9, 10)
_LIST: Final = 9
_MAP: Final = 11
_STRUCT: Final = 12
_DOUBLE_BYTES: Final = 8
_VARINT_BITS_MAX: Final = 63
_SHORT_LIST_MAX: Final = 15
_SHORT_STEP_MAX: Final = 15

# Fields of FileMetaData, and of the elements of its schema.
_SCHEMA: Final = 2
_ENCRYPTION: Final = 8
_NAME: Final = 4
_CHILDREN: Final = 5
_FIELD_ID: Final = 9


class EncryptedError(ValueError):
    """A footer is encrypted or signed; it cannot be changed without the keys."""


class Field(msgspec.Struct, frozen=True, gc=False):
    """The head of a field of a struct, and where it stands."""

    number: int
    kind: int
    start: int
    end: int


class Element(msgspec.Struct, frozen=True, gc=False):
    """One node of a file's schema."""

    name: str
    children: int
    field_id: int | None
    last: int
    """The number of the field behind which an id stands."""
    place: int
    """Where an id stands, or would stand."""
    following: Field | None
    """The head of the field behind it, which counts from the one before; None if it is the end."""


class _Reader:
    """Steps through bytes of the compact protocol."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.raw):
            raise ValueError("its footer ends early")
        self.at += 1
        return self.raw[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _VARINT_BITS_MAX:
                raise ValueError("its footer has a number of more than 64 bits")

    def number(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        length = self.varint()
        start = self.at
        self.jump(length)
        return self.raw[start : self.at]

    def jump(self, length: int) -> None:
        if length > len(self.raw) - self.at:
            raise ValueError("its footer ends early")
        self.at += length

    def field(self, before: int) -> Field | None:
        """Reads the head of a field that follows the one with this number; None at the end."""
        start = self.at
        head = self.byte()
        kind, step = head & 0x0F, head >> 4
        if kind == _STOP:
            return None
        return Field(before + step if step else self.number(), kind, start, self.at)

    def items(self) -> tuple[int, int]:
        """Reads the head of a list: the type of its items, and how many they are."""
        head = self.byte()
        kind, count = head & 0x0F, head >> 4
        if count == _SHORT_LIST_MAX:
            count = self.varint()
        if count > len(self.raw) - self.at:
            raise ValueError("its footer ends early")
        return kind, count

    def skip(self, kind: int) -> None:
        """Steps over the value of a field."""
        # Types, each with how many values of it; a struct that is begun with -1.
        todo = [] if kind in _BOOLEANS else [(kind, 1)]
        while todo:
            kind, count = todo.pop()
            if count == 0:
                continue
            if count < 0:
                field = self.field(0)
                if field is not None:
                    todo.append((_STRUCT, -1))
                    todo.append((field.kind, 0 if field.kind in _BOOLEANS else 1))
                continue
            todo.append((kind, count - 1))
            if kind in _BOOLEANS or kind == _BYTE:
                self.jump(1)
            elif kind in _NUMBERS:
                self.varint()
            elif kind == _DOUBLE:
                self.jump(_DOUBLE_BYTES)
            elif kind == _BINARY:
                self.jump(self.varint())
            elif kind in _LISTS:
                todo.append(self.items())
            elif kind == _STRUCT:
                todo.append((_STRUCT, -1))
            elif kind == _MAP:
                todo += self._pairs()
            else:
                raise ValueError(f"its footer has a value of the unknown type {kind}")

    def _pairs(self) -> list[tuple[int, int]]:
        count = self.varint()
        if not count:
            return []
        kinds = self.byte()
        if count > len(self.raw) - self.at:
            raise ValueError("its footer ends early")
        return [pair for _ in range(count) for pair in ((kinds & 0x0F, 1), (kinds >> 4, 1))]


def read_elements(footer: bytes) -> list[Element]:
    """Returns the nodes of a file's schema, the root first, each before its children."""
    reader = _Reader(footer)
    found: list[Element] | None = None
    before = 0
    while (field := reader.field(before)) is not None:
        before = field.number
        if before == _ENCRYPTION:
            raise EncryptedError("its footer is signed")
        if before == _SCHEMA and field.kind == _LIST:
            kind, count = reader.items()
            if kind != _STRUCT:
                raise ValueError("its footer has a schema that is no list of columns")
            found = [_read_element(reader) for _ in range(count)]
        else:
            reader.skip(field.kind)
    if reader.at != len(footer):
        raise ValueError("its footer goes on behind its end")
    if not found:
        raise ValueError("its footer has no schema")
    return found


def _read_element(reader: _Reader) -> Element:
    name, children, number = "", 0, None
    last, place, following = 0, reader.at, None
    before = 0
    while (field := reader.field(before)) is not None:
        if field.number <= before:
            raise ValueError("its footer has a column whose fields are in no order")
        before = field.number
        if before == _NAME and field.kind == _BINARY:
            name = reader.binary().decode("utf-8", "replace")
        elif before == _CHILDREN and field.kind == _I32:
            children = reader.number()
        elif before == _FIELD_ID and field.kind == _I32:
            number = reader.number()
        else:
            reader.skip(field.kind)
        if before < _FIELD_ID:
            last, place = before, reader.at
        elif before > _FIELD_ID and following is None:
            following = field
    return Element(name, children, number, last, place, following)


def insert_ids(footer: bytes, elements: Sequence[Element], ids: Mapping[int, int]) -> bytes:
    """Returns a footer with ids added to elements, which are given by their positions."""
    parts: list[bytes] = []
    done = 0
    for position in sorted(ids):
        element = elements[position]
        own = _head(_FIELD_ID - element.last, _I32) + _encode(ids[position])
        parts += [footer[done : element.place], own]
        done = element.place
        if element.following is not None:
            # Heads hold the distance from the field before, which is now the id.
            parts.append(_head(element.following.number - _FIELD_ID, element.following.kind))
            done = element.following.end
    return b"".join(parts) + footer[done:]


def _head(step: int, kind: int) -> bytes:
    if step > _SHORT_STEP_MAX:
        raise ValueError(f"its footer has a column with a field {step} numbers behind the id")
    return bytes([step << 4 | kind])


def _encode(number: int) -> bytes:
    """Returns a number as i32 is written: zigzag, then seven bits in each byte."""
    value = number << 1 ^ number >> 31
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
