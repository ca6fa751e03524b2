"""JSON as bytes, encoded and decoded; Invalid names what cannot be decoded and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from lochan.base.errors import Invalid

# One call keeps the interpreter until it returns: 100,000 entries in one took 36 ms.
_SLICE: Final = 1_000

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """Encodes any value of `wire/`; long lists in slices, so that other threads can run between."""
    if isinstance(value, msgspec.Struct):
        long = {
            name: _encode_list(held)
            for name in value.__struct_fields__
            if type(held := getattr(value, name)) is list and len(held) > _SLICE
        }
        if long:
            value = msgspec.structs.replace(value, **long)
    return _encode(value)


def _encode_list(items: list[Any]) -> msgspec.Raw:
    return joined([_encode(items[at : at + _SLICE]) for at in range(0, len(items), _SLICE)])


def joined(lists: Sequence[bytes]) -> msgspec.Raw:
    """Returns several lists, already encoded, as one."""
    return msgspec.Raw(b"[%b]" % b",".join([one[1:-1] for one in lists if len(one) > len(b"[]")]))


class Reader:
    """Decodes one type of value from JSON."""

    __slots__ = ("_decode",)

    def __init__(self, of: Any) -> None:
        self._decode = msgspec.json.Decoder(of).decode

    def __call__(self, body: bytes) -> Any:
        """Returns the value; Invalid names what is wrong and where."""
        try:
            return self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(not_readable(error)) from None


def convert(value: Any, of: Any, where: str) -> Any:
    """Converts decoded JSON to a typed value; Invalid names what is wrong."""
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise Invalid(f"{where}: {error}") from None


def not_readable(error: Exception) -> str:
    """Returns the message about a body that cannot be decoded."""
    if isinstance(error, RecursionError):
        return "The request body is nested too deeply."
    if isinstance(error, msgspec.ValidationError):
        return f"The request body is not as expected: {error}"
    return f"The request body is not JSON: {error}"
