"""The methods of branches and tags, of their commits, and of differences."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.client.methods import Group, Runner, page_iterator, request_method
from lochan.model.commits import ContentKey
from lochan.model.references import Annotation
from lochan.model.requests import (
    DEFAULT_BRANCH,
    AssignReferenceRequest,
    DeleteReferenceRequest,
    DiffRequest,
    GetReferenceRequest,
    ListReferencesRequest,
    LogRequest,
    NewReference,
    NewReferencesRequest,
    RecentChangesRequest,
    ReferenceLogRequest,
)
from lochan.model.specs import parse_expected, parse_name, parse_spec


class References(Group[Runner]):
    """Branches and tags."""

    @request_method
    def get(self, name: str = DEFAULT_BRANCH, *, fetch_all: bool = False) -> GetReferenceRequest:
        """Returns a branch or tag; `fetch_all` adds its metadata."""
        return GetReferenceRequest(name=parse_name(name), fetch_all=fetch_all)

    @request_method
    def list(
        self,
        limit: int | None = None,
        token: str | None = None,
        *,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
        prefix: str = "",
    ) -> ListReferencesRequest:
        """Returns a page of branches and tags, in the order of their names."""
        return ListReferencesRequest(
            limit=limit, token=token, filter=filter, fetch_all=fetch_all, prefix=prefix
        )

    @page_iterator
    def iterate(
        self,
        *,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
        prefix: str = "",
    ) -> ListReferencesRequest:
        """Yields all branches and tags, in the order of their names."""
        return ListReferencesRequest(
            limit=PAGE_ENTRIES_MAX, filter=filter, fetch_all=fetch_all, prefix=prefix
        )

    @request_method
    def create(
        self,
        name: str,
        source: str | None = DEFAULT_BRANCH,
        *,
        kind: str = "BRANCH",
        expires_us: int | None = None,
        annotation: Annotation | None = None,
    ) -> NewReference:
        """Creates a branch or tag where the source is; None: a branch without any commit."""
        return NewReference(
            name=name,
            source=None if source is None else parse_spec(source),
            kind=kind,
            expires_us=expires_us,
            annotation=annotation,
        )

    @request_method
    def create_many(self, new: Sequence[NewReference]) -> NewReferencesRequest:
        """Creates all of these branches and tags, or none."""
        return NewReferencesRequest(new=tuple(new))

    @request_method
    def assign(
        self, name: str, target: str, *, expected: str | None = None, kind: str | None = None
    ) -> AssignReferenceRequest:
        """Makes a branch or tag point at another commit; without `expected`, wherever it is now."""
        return AssignReferenceRequest(
            name=parse_name(name),
            target=parse_spec(target),
            expected=parse_expected(expected),
            kind=kind,
        )

    @request_method
    def delete(
        self, name: str, *, expected: str | None = None, kind: str | None = None
    ) -> DeleteReferenceRequest:
        """Deletes a branch or tag; returns what it was."""
        return DeleteReferenceRequest(
            name=parse_name(name), expected=parse_expected(expected), kind=kind
        )

    @request_method
    def log(
        self, name: str, limit: int | None = None, token: str | None = None
    ) -> ReferenceLogRequest:
        """Returns a page of the moves of a reference, the latest first."""
        return ReferenceLogRequest(name=parse_name(name), limit=limit, token=token)

    @page_iterator
    def iterate_log(self, name: str) -> ReferenceLogRequest:
        """Yields all moves of a reference, the latest first."""
        return ReferenceLogRequest(name=parse_name(name), limit=PAGE_ENTRIES_MAX)

    @request_method
    def recent_changes(self, name: str, *, scan_commits: bool = False) -> RecentChangesRequest:
        """Returns the recent heads of a reference; a scan finds out whether they can be read."""
        return RecentChangesRequest(name=parse_name(name), scan_commits=scan_commits)


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
