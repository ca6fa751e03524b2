"""What the client asks and what it gets back, without a socket.

An operation is a *flow*: a generator that yields what to ask, is sent each reply, and returns the
operation's result. The blocking and the asynchronous client run the same flows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import msgspec

_Result = TypeVar("_Result")


class Ask(msgspec.Struct, frozen=True):
    """One request, below the address of the repository.

    `path` is already percent-encoded. `key` makes a write safe to send again: it is chosen once for
    each call, so the server knows a repetition from a second wish.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    key: str | None = None


class Reply(msgspec.Struct, frozen=True):
    """One answer; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Flow = Generator[Ask, Reply, _Result]
"""Yields asks, is sent replies, returns the result; raises errors of our tree."""

AnyFlow = Flow[Any]
