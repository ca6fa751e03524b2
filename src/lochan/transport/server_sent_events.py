"""Server-sent events: messages as text, which clients follow and resume by their ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from lochan.base.errors import Invalid
from lochan.transport.body_streams import ResponseStream
from lochan.transport.exchange import Response

CONTENT_TYPE: Final = b"text/event-stream"

KEEP_ALIVE: Final = b":\n\n"
"""A comment, which clients ignore; proxies see that the connection is alive."""


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


def follow(messages: AsyncGenerator[bytes, None]) -> Response:
    """Returns the answer that sends messages until the client or the server ends it."""
    headers = ((b"cache-control", b"no-cache"),)
    stream = ResponseStream(messages, endless=True)
    return Response(200, b"", headers, CONTENT_TYPE, stream)
