"""Conditions of reads and copies: by ETag and by time, in the order of RFC 9110 (13.2.2)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from lochan.base.errors import RangeNotSatisfiable, Refusal
from lochan.model.files import FileInfo
from lochan.transport.conditions import ByteSelection, select
from lochan.transport.exchange import Request, RequestHeaders

_COPY = "x-amz-copy-source-"


def choose(request: Request, info: FileInfo) -> ByteSelection:
    """Returns which bytes of a file a request wants; raises if it may not have any."""
    chosen = select(request, info.etag, info.size)
    headers = request.headers
    if chosen.status != 412 and headers.get("if-match") is None:
        if _is_after(info, headers.get("if-unmodified-since")):
            raise failed("If-Unmodified-Since")
    if chosen.status == 412:
        raise failed("If-Match")
    if chosen.status == 304:
        return chosen
    if headers.get("if-none-match") is None:
        since = headers.get("if-modified-since")
        if _read_time(since) is not None and not _is_after(info, since):
            return ByteSelection(304, 0, 0, chosen.headers)
    if chosen.status == 416:
        raise RangeNotSatisfiable("The requested range is not satisfiable", info.size)
    return chosen


def check_copy(headers: RequestHeaders, info: FileInfo) -> None:
    """Raises unless the source of a copy is as the request demands."""
    tag = f'"{info.etag}"'
    match, differ = headers.get(f"{_COPY}if-match"), headers.get(f"{_COPY}if-none-match")
    if match is not None:
        if match.strip() != "*" and _quoted(match) != tag:
            raise failed(f"{_COPY}if-match")
    elif _is_after(info, headers.get(f"{_COPY}if-unmodified-since")):
        raise failed(f"{_COPY}if-unmodified-since")
    if differ is not None:
        if differ.strip() == "*" or _quoted(differ) == tag:
            raise failed(f"{_COPY}if-none-match")
        return
    since = headers.get(f"{_COPY}if-modified-since")
    if _read_time(since) is not None and not _is_after(info, since):
        raise failed(f"{_COPY}if-modified-since")


def failed(condition: str) -> Refusal:
    """Returns the refusal of a request whose condition does not hold."""
    return Refusal(
        f"At least one of the pre-conditions you specified did not hold: {condition}",
        412,
        "PreconditionFailed",
    )


def _quoted(text: str) -> str:
    stripped = text.strip().strip('"')
    return f'"{stripped}"'


def _is_after(info: FileInfo, text: str | None) -> bool:
    """Returns whether a file was changed after a time; False without a time that can be read."""
    time = _read_time(text)
    if time is None:
        return False
    return datetime.fromtimestamp(info.modified_us // 1_000_000, UTC) > time


def _read_time(text: str | None) -> datetime | None:
    """Returns the time of a header; None if there is none or it cannot be read, as HTTP has it."""
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
