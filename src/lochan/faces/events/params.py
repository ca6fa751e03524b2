"""What a follower requests: the query of a stream, read strictly."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.events import STREAM_PATTERNS_MAX
from lochan.events.filters import CompiledFilter, EventFilter
from lochan.model.events import CHANGE_TYPES
from lochan.service.resolve import DEFAULT_ALIAS
from lochan.transport.exchange import Exchange
from lochan.wire.codec import micros

_KNOWN: Final = frozenset(
    ("reference", "type", "key", "content-type", "prefix", "from", "since", "follow")
)


class StreamQuery(msgspec.Struct, frozen=True):
    """One stream: its references, its filter, where it begins, and whether it has an end."""

    reference: str
    filter: CompiledFilter | None
    token: str
    since_us: int | None
    ends: bool


def read_query(exchange: Exchange) -> StreamQuery:
    """Reads the query of a stream; Invalid names what is wrong with it."""
    query = exchange.request.query
    unknown = sorted(set(query.names()) - _KNOWN)
    if unknown:
        raise Invalid(f"unknown parameter {unknown[0][:40]!r}; known are {', '.join(_KNOWN)}")
    token = exchange.request.headers.get("last-event-id") or query.get("from") or ""
    since = query.get("since")
    if since and token:
        raise Invalid("a stream begins at a token or at a time; send one of them")
    follow = (query.get("follow") or "true").lower()
    if follow not in ("true", "false"):
        raise Invalid(f"the parameter 'follow' is true or false: {follow[:40]!r}")
    reference = query.get("reference") or DEFAULT_ALIAS
    since_us = None if not since else _time(since)
    return StreamQuery(reference, _filter(exchange), token, since_us, follow == "false")


def _time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(f"the parameter 'since' is a time with its zone, ISO 8601: {text[:40]!r}")
    try:
        return micros(moment)
    except (OverflowError, ValueError):
        raise Invalid(f"the parameter 'since' is out of range: {text[:40]!r}") from None


def _filter(exchange: Exchange) -> CompiledFilter | None:
    """Returns the filter, None if everything is wanted."""
    query = exchange.request.query
    types, keys = query.all("type"), query.all("key")
    unknown = sorted(set(types) - CHANGE_TYPES)
    if unknown:
        known = ", ".join(sorted(CHANGE_TYPES))
        raise Invalid(f"there is no type of events {unknown[0][:40]!r}; there are {known}")
    for pattern in keys:
        # With one star the time of matching is in proportion to the length of a key.
        if pattern.count("*") > 1:
            raise Invalid(f"a pattern of keys has one * at most: {pattern[:40]!r}")
    given = EventFilter(
        types=tuple(types),
        keys=tuple(keys),
        content_types=tuple(query.all("content-type")),
        file_prefixes=tuple(query.all("prefix")),
    )
    many = max(map(len, (types, keys, given.content_types, given.file_prefixes)))
    if many > STREAM_PATTERNS_MAX:
        raise Invalid(f"a stream has at most {STREAM_PATTERNS_MAX} values of one kind")
    return None if given == EventFilter() else CompiledFilter(given)
