"""JSON as bytes, encoded and decoded, with times and pages; Invalid names the faulty field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.times import check_time, readable_time

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


Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment with its zone."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SPAN: Final = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?"
    r"(?:T(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,10})(?:\.(\d{1,6}))?S)?)?\Z"
)


def instant(time_us: int) -> datetime:
    """Returns a time for the wire; a stored time outside its range as the nearest one inside."""
    return _EPOCH + timedelta(microseconds=readable_time(time_us))


def instant_to_send(name: str, time_us: int) -> datetime:
    """Returns a time as a client sends it; Invalid if no server could show it again."""
    return _EPOCH + timedelta(microseconds=check_time(name, time_us))


def micros(moment: datetime) -> int:
    """Returns a moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def span_us(text: str) -> int:
    """Reads a span such as `P7D` or `PT90M`; Invalid if it is none or nothing."""
    match = _SPAN.match(text)
    if match is None or text.endswith(("P", "T")):
        raise Invalid(f"not a span of time: {text[:40]!r}; write for example P7D or PT90M")
    weeks, days, hours, minutes, seconds, fraction = match.groups()
    span = timedelta(
        weeks=int(weeks or 0),
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=int(seconds or 0),
        microseconds=int((fraction or "0").ljust(6, "0")),
    )
    if not span:
        raise Invalid(f"a span of time must be longer than nothing: {text[:40]!r}")
    return span // _MICROSECOND


class PageJson(msgspec.Struct, frozen=True, rename="camel"):
    """A page: whether another one follows, and the token that requests it."""

    has_more: bool
    token: str | None
