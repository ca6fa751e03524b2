"""HTTP requests and replies as values, without a socket.

An operation is a *flow*: a generator that yields HTTP requests, is sent the reply to each, and
returns the operation's result. The blocking and the asynchronous client run the same flows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

import msgspec

_Result = TypeVar("_Result")

Query = tuple[tuple[str, str], ...]
"""Names and values of the parameters of a URL."""


class HttpRequest(msgspec.Struct, frozen=True):
    """One HTTP request, below the address of the repository.

    `path` is percent-encoded. `key` is the idempotency key of a write: it is chosen once for each
    call, so the server distinguishes a request that is sent again from a second request.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    key: str | None = None


class HttpReply(msgspec.Struct, frozen=True):
    """One HTTP reply; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Flow = Generator[HttpRequest, HttpReply, _Result]
"""Yields HTTP requests, is sent the replies, returns the result; raises errors of our tree."""
