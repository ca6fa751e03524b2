"""JSON as bytes, in and out; what cannot be read is Invalid and says where."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from lochan.base.errors import Invalid

_Value = TypeVar("_Value")

encode = msgspec.json.Encoder().encode
"""Writes any value of `wire/` as JSON."""


class Reader:
    """Reads one type of value from JSON."""

    __slots__ = ("_decode",)

    def __init__(self, of: Any) -> None:
        self._decode = msgspec.json.Decoder(of).decode

    def __call__(self, body: bytes) -> Any:
        """Returns the value; Invalid says what is wrong and where."""
        try:
            return self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(not_readable(error)) from None


def decode(body: bytes, of: type[_Value]) -> _Value:
    """Reads a value from JSON; for what is read rarely, otherwise keep a `Reader`."""
    value: _Value = Reader(of)(body)
    return value


def convert(value: Any, of: Any, where: str) -> Any:
    """Reads a value from what JSON was already decoded to."""
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise Invalid(f"{where}: {error}") from None


def not_readable(error: Exception) -> str:
    """Returns what is wrong with a body, in words."""
    if isinstance(error, RecursionError):
        return "The request body is nested too deeply."
    if isinstance(error, msgspec.ValidationError):
        return f"The request body is not as expected: {error}"
    return f"The request body is not JSON: {error}"
