"""The flow of events: opens a stream of server-sent messages, which the client reads."""

from __future__ import annotations

from datetime import datetime

import httpx
import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.client import EVENT_SILENCE_S
from lochan.client.failures import error_of
from lochan.client.messages import Flow, HttpRequest, query_of
from lochan.wire.operations_events import EVENTS_PREFIX


class FollowRequest(msgspec.Struct, frozen=True):
    """Which events are followed: of which references, through which filter, from which time on."""

    reference: str
    types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    content_types: tuple[str, ...] = ()
    file_prefixes: tuple[str, ...] = ()
    since: datetime | None = None
    follow: bool = True


def http_request(request: FollowRequest, token: str) -> HttpRequest:
    """Returns the request for a stream that goes on behind a token, or begins without one."""
    since = None
    if request.since is not None and not token:
        if request.since.tzinfo is None:
            raise Invalid("the time where a stream begins has a zone")
        since = request.since.isoformat()
    query = query_of(
        reference=request.reference, since=since, follow=None if request.follow else "false"
    )
    lists = (
        ("type", request.types),
        ("key", request.keys),
        ("content-type", request.content_types),
        ("prefix", request.file_prefixes),
    )
    query += tuple((name, value) for name, values in lists for value in values)
    headers: tuple[tuple[str, str], ...] = (("accept", "text/event-stream"),)
    if token:
        headers += (("last-event-id", token),)
    return HttpRequest(
        "GET", EVENTS_PREFIX, query, headers=headers, streams=True, silence_s=EVENT_SILENCE_S
    )


def open_stream(request: FollowRequest, token: str) -> Flow[httpx.Response]:
    """Begins a stream; its messages are read by the client."""
    http = http_request(request, token)
    reply = yield http
    if reply.stream is None:
        raise error_of(http, reply)
    return reply.stream
