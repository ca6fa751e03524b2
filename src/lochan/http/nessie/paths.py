"""Finds the place of a raw path below `/trees` of version 2.

A reference is one segment, or anything up to an `@` and the rest of that segment, so that names
with slashes can be written plainly. What may follow it is a short list. The reading with a
reference of one segment is tried first.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.http.exchange import decode_percent

_TO: Final = re.compile(rb"[^/]+|[^@]+(?:@|%40)[^@/]*")
_WITH_AT: Final = re.compile(rb"([^@]*?(?:@|%40)[^@/]*)(?:/(.*))?", re.DOTALL)

Place = tuple[str, dict[str, str]]
"""The template of a path, and the decoded values in it."""


def find_place(raw: bytes, tails: frozenset[bytes]) -> Place | None:
    """Returns the place of what follows `/trees/`; `tails` are the fixed ones."""
    first, slash, rest = raw.partition(b"/")
    if first:
        if not slash:
            return "", {"ref": decode_percent(first)}
        place = _tail(first, rest, tails)
        if place is not None:
            return place
    match = _WITH_AT.fullmatch(raw)
    if match is None or not match[1]:
        return None
    if match[2] is None:
        return "", {"ref": decode_percent(match[1])}
    return _tail(match[1], match[2], tails)


def _tail(ref: bytes, rest: bytes, tails: frozenset[bytes]) -> Place | None:
    if rest in tails:
        return rest.decode("ascii"), {"ref": decode_percent(ref)}
    head, slash, more = rest.partition(b"/")
    if not slash or not more:
        return None
    if head == b"contents" and b"/" not in more:
        return "contents/{key}", {"ref": decode_percent(ref), "key": decode_percent(more)}
    if head == b"diff" and _TO.fullmatch(more):
        return "diff/{to-ref}", {"ref": decode_percent(ref), "to-ref": decode_percent(more)}
    return None
