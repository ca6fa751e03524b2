"""The methods of a whole store, for its operators: counts, rows, the erasure of a repository."""

from __future__ import annotations

from lochan.base.limits.maintenance import COPY_PAGE_ROWS_FIRST
from lochan.client.methods import Group, Runner, request_method
from lochan.model.store_requests import (
    CountStoreRequest,
    EraseRepositoryRequest,
    ScanStoreRequest,
    WalkStoreRequest,
)


class StoreMethods(Group[Runner]):
    """All that a store contains, whichever repository is used."""

    @request_method
    def count(self, *, exact: bool = False, token: str | None = None) -> CountStoreRequest:
        """Returns counts of a part of the store, and the token of the next part."""
        return CountStoreRequest(exact=exact, token=token)

    @request_method
    def scan(
        self,
        partition: bytes,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = COPY_PAGE_ROWS_FIRST,
    ) -> ScanStoreRequest:
        """Returns rows of one partition as they are stored."""
        return ScanStoreRequest(partition=partition, start=start, end=end, limit=limit)

    @request_method
    def walk(
        self, prefix: bytes, cursor: bytes = b"", limit: int = COPY_PAGE_ROWS_FIRST
    ) -> WalkStoreRequest:
        """Returns rows of the partitions whose names begin so, in the order of the store."""
        return WalkStoreRequest(prefix=prefix, cursor=cursor, limit=limit)

    @request_method
    def erase(
        self, repository: str, token: str | None = None, position: str = ""
    ) -> EraseRepositoryRequest:
        """Does a step of the erasure of a repository; without a token it returns the token.

        To be called with the position of the step before, until one is `done`.
        """
        return EraseRepositoryRequest(repository=repository, token=token, position=position)
