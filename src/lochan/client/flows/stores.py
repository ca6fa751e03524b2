"""The flows of requests about a whole store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from lochan.client.failures import exchange
from lochan.client.messages import Flow, HttpRequest
from lochan.model import store_requests as requests
from lochan.model.requests import RepositoryRequest
from lochan.model.stores import CountPage, EraseStep, StoredPage
from lochan.wire.codec import encode
from lochan.wire.operations_store import STORE_PREFIX
from lochan.wire.stores import (
    CountsJson,
    ErasedJson,
    EraseIn,
    StoredRowsJson,
    counts_in,
    erased_in,
    rows_in,
)

_Shape = TypeVar("_Shape")
_Query = tuple[tuple[str, str], ...]


def count(request: requests.CountStoreRequest) -> Flow[CountPage]:
    """Fetches counts of a part of the store."""
    query: _Query = (("exact", "true"),) if request.exact else ()
    if request.token is not None:
        query = (*query, ("page-token", request.token))
    return counts_in((yield from _get("/counts", CountsJson, query)))


def scan(request: requests.ScanStoreRequest) -> Flow[StoredPage]:
    """Fetches rows of one partition."""
    query: _Query = (
        ("partition", request.partition.hex()),
        ("start", request.start.hex()),
        ("max-records", str(request.limit)),
    )
    if request.end is not None:
        query = (*query, ("end", request.end.hex()))
    return rows_in((yield from _get("/scan", StoredRowsJson, query)))


def walk(request: requests.WalkStoreRequest) -> Flow[StoredPage]:
    """Fetches rows of several partitions."""
    query = (
        ("partition", request.prefix.hex()),
        ("cursor", request.cursor.hex()),
        ("max-records", str(request.limit)),
    )
    return rows_in((yield from _get("/walk", StoredRowsJson, query)))


def erase(request: requests.EraseRepositoryRequest) -> Flow[EraseStep]:
    """Does a step of an erasure; it may be sent again."""
    body = encode(
        EraseIn(repository=request.repository, token=request.token, position=request.position)
    )
    path = f"{STORE_PREFIX}/erase"
    http = HttpRequest("POST", path, (), body, writes=request.token is not None, of_server=True)
    return erased_in((yield from exchange(http, ErasedJson)))


def _get(path: str, shape: type[_Shape], query: _Query) -> Flow[_Shape]:
    http = HttpRequest("GET", STORE_PREFIX + path, query, of_server=True)
    return (yield from exchange(http, shape))


FLOWS: Final[Mapping[type[RepositoryRequest[Any]], Callable[[Any], Flow[Any]]]] = {
    requests.CountStoreRequest: count,
    requests.ScanStoreRequest: scan,
    requests.WalkStoreRequest: walk,
    requests.EraseRepositoryRequest: erase,
}
"""Which flow carries which request about a store."""
