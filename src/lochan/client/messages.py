"""HTTP requests and replies as values, without a socket.

An operation is a *flow*: a generator that yields HTTP requests, is sent the reply to each, and
returns the operation's result. The blocking and the asynchronous client run the same flows.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from secrets import token_hex
from typing import Any, Final, TypeVar

import httpx
import msgspec

from lochan.client.upload_sources import UploadSource
from lochan.model.requests import KeysPageRequest, PageRequest
from lochan.wire.keys import key_to_path

_Result = TypeVar("_Result")

Query = tuple[tuple[str, str], ...]
"""Names and values of the parameters of a URL."""


class HttpRequest(msgspec.Struct, frozen=True):
    """One HTTP request, below the address of the repository, or below that of the server.

    `path` is percent-encoded. `key` is the idempotency key of a write: it is chosen once for each
    call, so the server distinguishes a request that is sent again from a second request. `writes`
    marks writes without such a key; one that is sent `once` is not sent again when it may have
    taken effect. `upload` is a body that is sent in pieces, in place of `body`; with `streams` the
    body of the reply is not read, unless it states an error.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    key: str | None = None
    writes: bool = False
    once: bool = False
    of_server: bool = False
    upload: UploadSource | None = None
    headers: tuple[tuple[str, str], ...] = ()
    streams: bool = False
    silence_s: float | None = None
    """How long the body of the reply may be silent; None: as long as the client waits for any."""

    @property
    def is_write(self) -> bool:
        """Whether it changes something, so that a lost reply leaves the outcome unknown."""
        return self.writes or self.key is not None


class HttpReply(msgspec.Struct, frozen=True):
    """One HTTP reply; names of headers are in lower case.

    `stream` is the open response of a request that `streams`; its body has to be read and closed.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    stream: httpx.Response | None = None


Flow = Generator[HttpRequest, HttpReply, _Result]
"""Yields HTTP requests, is sent the replies, returns the result; raises errors of our tree."""


_KEY_BYTES: Final = 16


def query_of(**values: str | None) -> Query:
    """Returns those parameters that have a value; `max_key` is sent as `max-key`."""
    return tuple((name.replace("_", "-"), value) for name, value in values.items() if value)


def page_query(request: PageRequest[Any]) -> Query:
    """Returns the parameters that choose a page."""
    limit = None if request.limit is None else str(request.limit)
    return query_of(max_records=limit, page_token=request.token)


def keys_query(request: KeysPageRequest[Any]) -> Query:
    """Returns the parameters that choose a page of keys, and which keys it may contain."""
    query = page_query(request) + tuple(("key", key_to_path(key)) for key in request.keys)
    bounds = (("min-key", request.start), ("max-key", request.end), ("prefix-key", request.prefix))
    query += tuple((name, key_to_path(key)) for name, key in bounds if key is not None)
    return query + query_of(filter=request.filter)


def new_idempotency_key() -> str:
    """Returns an idempotency key, chosen once for each call of a write."""
    return token_hex(_KEY_BYTES)
