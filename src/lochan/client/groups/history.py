"""The methods of commits that exist, and of differences."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client.methods import Group, Runner, page_iterator, request_method
from lochan.model.commits import ContentKey
from lochan.model.requests import (
    DEFAULT_BRANCH,
    DiffRequest,
    LogRequest,
)
from lochan.model.specs import parse_expected, parse_spec


class History(Group[Runner]):
    """Commits, and the differences between two states."""

    @request_method
    def log(
        self,
        spec: str = DEFAULT_BRANCH,
        limit: int | None = None,
        token: str | None = None,
        *,
        limit_hash: str | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
    ) -> LogRequest:
        """Returns a page of commits, the latest first; `fetch_all` adds their operations."""
        return LogRequest(
            spec=parse_spec(spec),
            limit=limit,
            token=token,
            limit_hash=parse_expected(limit_hash),
            filter=filter,
            fetch_all=fetch_all,
        )

    @page_iterator
    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        limit_hash: str | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
    ) -> LogRequest:
        """Yields all commits, the latest first; `fetch_all` adds their operations."""
        return LogRequest(
            spec=parse_spec(spec),
            limit=PAGE_ENTRIES_MAX,
            limit_hash=parse_expected(limit_hash),
            filter=filter,
            fetch_all=fetch_all,
        )

    @request_method
    def diff(
        self,
        left: str,
        right: str,
        limit: int | None = None,
        token: str | None = None,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
    ) -> DiffRequest:
        """Returns a page of the keys that differ."""
        return DiffRequest(
            left=parse_spec(left),
            right=parse_spec(right),
            limit=limit,
            token=token,
            keys=tuple(tuple(key) for key in keys),
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
        )

    @page_iterator
    def iterate_diff(
        self,
        left: str,
        right: str,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
    ) -> DiffRequest:
        """Yields all keys that differ."""
        return DiffRequest(
            left=parse_spec(left),
            right=parse_spec(right),
            limit=PAGE_ENTRIES_MAX,
            keys=tuple(tuple(key) for key in keys),
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
        )
