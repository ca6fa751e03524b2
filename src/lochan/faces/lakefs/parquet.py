"""Writes a small table of numbers in Parquet form: one row group, plain values, no compression.

Only the sample data needs it, and the server depends on no library for it. The footer is written in
Thrift's compact protocol, with the fields that readers require.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

_MAGIC: Final = b"PAR1"
_INT64: Final = 2
_DOUBLE: Final = 5
_REQUIRED: Final = 0
_PLAIN: Final = 0
_LEVELS: Final = 3
_UNCOMPRESSED: Final = 0
_DATA_PAGE: Final = 0

# Types of Thrift's compact protocol.
_I32: Final = 5
_I64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12

_Field = tuple[int, int, bytes]
"""The id, the type and the encoded value of a field."""


def parquet_of(columns: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """Returns a file with these columns, all of the same length, of whole or of other numbers."""
    rows = len(next(iter(columns.values())))
    body = bytearray(_MAGIC)
    chunks: list[bytes] = []
    for name, values in columns.items():
        kind, data = _encoded(values)
        start = len(body)
        body += _page_head(rows, len(data)) + data
        chunks.append(_chunk(name, kind, rows, start, len(body) - start))
    root = _struct([(4, _BINARY, _text("schema")), (5, _I32, _number(len(columns)))])
    leaves = [_leaf(name, _encoded(values[:1])[0]) for name, values in columns.items()]
    group = _struct(
        [
            (1, _LIST, _list(_STRUCT, chunks)),
            (2, _I64, _number(len(body) - len(_MAGIC))),
            (3, _I64, _number(rows)),
        ]
    )
    footer = _struct(
        [
            (1, _I32, _number(1)),
            (2, _LIST, _list(_STRUCT, [root, *leaves])),
            (3, _I64, _number(rows)),
            (4, _LIST, _list(_STRUCT, [group])),
            (6, _BINARY, _text("lochan")),
        ]
    )
    return bytes(body) + footer + struct.pack("<I", len(footer)) + _MAGIC


def _encoded(values: Sequence[int] | Sequence[float]) -> tuple[int, bytes]:
    if values and isinstance(values[0], float):
        return _DOUBLE, struct.pack(f"<{len(values)}d", *values)
    return _INT64, struct.pack(f"<{len(values)}q", *values)


def _page_head(rows: int, size: int) -> bytes:
    data = _struct(
        [
            (1, _I32, _number(rows)),
            (2, _I32, _number(_PLAIN)),
            (3, _I32, _number(_LEVELS)),
            (4, _I32, _number(_LEVELS)),
        ]
    )
    return _struct(
        [
            (1, _I32, _number(_DATA_PAGE)),
            (2, _I32, _number(size)),
            (3, _I32, _number(size)),
            (5, _STRUCT, data),
        ]
    )


def _chunk(name: str, kind: int, rows: int, start: int, size: int) -> bytes:
    meta = _struct(
        [
            (1, _I32, _number(kind)),
            (2, _LIST, _list(_I32, [_number(_PLAIN)])),
            (3, _LIST, _list(_BINARY, [_text(name)])),
            (4, _I32, _number(_UNCOMPRESSED)),
            (5, _I64, _number(rows)),
            (6, _I64, _number(size)),
            (7, _I64, _number(size)),
            (9, _I64, _number(start)),
        ]
    )
    return _struct([(2, _I64, _number(start)), (3, _STRUCT, meta)])


def _leaf(name: str, kind: int) -> bytes:
    return _struct(
        [(1, _I32, _number(kind)), (3, _I32, _number(_REQUIRED)), (4, _BINARY, _text(name))]
    )


def _struct(fields: Sequence[_Field]) -> bytes:
    raw, last = bytearray(), 0
    for number, kind, value in fields:
        raw += bytes(((number - last) << 4 | kind,)) + value
        last = number
    return bytes(raw) + b"\0"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    if len(items) < 15:
        head = bytes((len(items) << 4 | kind,))
    else:
        head = bytes((0xF0 | kind,)) + _varint(len(items))
    return head + b"".join(items)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw)) + raw


def _number(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _varint(number: int) -> bytes:
    raw = bytearray()
    while number > 0x7F:
        raw.append(number & 0x7F | 0x80)
        number >>= 7
    raw.append(number)
    return bytes(raw)
