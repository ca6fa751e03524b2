"""Server-sent events: messages as text, which clients follow and resume by their ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Final

from lochan.base.errors import Invalid
from lochan.transport.body_streams import ResponseStream
from lochan.transport.exchange import Response

CONTENT_TYPE: Final = b"text/event-stream"

KEEP_ALIVE: Final = b":\n\n"
"""A comment, which clients ignore; proxies see that the connection is alive."""

_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def _nothing() -> None:
    return None


def encode_event(data: str, event: str = "", event_id: str = "") -> bytes:
    """Returns one message; names and ids have no line breaks, data may have."""
    if any(mark in text for text in (event, event_id) for mark in "\r\n\0"):
        raise Invalid("the name and the id of an event have no line break")
    lines = [f"event: {event}"] if event else []
    if event_id:
        lines.append(f"id: {event_id}")
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8")


def encode_line(event: str, event_id: str, data: bytes) -> bytes:
    """Returns one message of data in one line, such as JSON; nothing is checked."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (event.encode(), event_id.encode("ascii"), data)


def encode_position(event_id: str) -> bytes:
    """Returns what moves the position of a client without an event; it keeps alive, too."""
    return b"id: %b\n\n" % event_id.encode("ascii")


def follow(
    messages: AsyncGenerator[bytes, None], closed: Callable[[], None] = _nothing
) -> Response:
    """Returns the answer that sends messages until the client or the server ends it."""
    stream = ResponseStream(messages, endless=True, closed=closed)
    return Response(200, b"", _HEADERS, CONTENT_TYPE, stream)
