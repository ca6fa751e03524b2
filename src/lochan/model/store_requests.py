"""Requests about a whole store: what it contains, its rows, the erasure of a repository."""

from __future__ import annotations

from lochan.model.requests import RepositoryRequest
from lochan.model.stores import CountPage, EraseStep, StoredPage


class CountStoreRequest(RepositoryRequest[CountPage], frozen=True, kw_only=True):
    """Counts a part of a store."""

    exact: bool
    token: str | None


class ScanStoreRequest(RepositoryRequest[StoredPage], frozen=True, kw_only=True):
    """Reads rows of one partition."""

    partition: bytes
    start: bytes
    end: bytes | None
    limit: int


class WalkStoreRequest(RepositoryRequest[StoredPage], frozen=True, kw_only=True):
    """Reads rows of the partitions whose names begin so."""

    prefix: bytes
    cursor: bytes
    limit: int


class EraseRepositoryRequest(RepositoryRequest[EraseStep], frozen=True, kw_only=True):
    """Does a step of the erasure of a repository; without a token it only returns the token."""

    repository: str
    token: str | None
    position: str
