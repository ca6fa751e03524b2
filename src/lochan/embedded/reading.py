"""Reading contents and history of an embedded repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.embedded.lane_runner import Group, all_of
from lochan.model.commits import ContentKey, JobRecord, LogEntry
from lochan.model.contents import Content
from lochan.model.references import Reference
from lochan.model.requests import DEFAULT_BRANCH
from lochan.model.results import DiffEntry, Entry, Page
from lochan.model.specs import parse_on_reference, parse_spec


class Contents(Group):
    """Keys and what they hold."""

    def entries(
        self,
        spec: str = DEFAULT_BRANCH,
        limit: int | None = None,
        token: str | None = None,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        with_content: bool = False,
    ) -> Page[Entry]:
        """Returns a page of keys, in their order."""
        return self._service.contents.entries(
            parse_spec(spec),
            limit,
            token,
            keys=keys,
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
            with_content=with_content,
        )

    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        with_content: bool = False,
    ) -> Iterator[Entry]:
        """Yields all keys, as they were when the first page was read."""
        return all_of(
            lambda token: self.entries(
                spec,
                PAGE_ENTRIES_MAX,
                token,
                keys=keys,
                start=start,
                end=end,
                prefix=prefix,
                filter=filter,
                with_content=with_content,
            )
        )

    def get(self, spec: str, key: ContentKey) -> tuple[Content, Reference]:
        """Returns what a key holds, and where that was read; ContentNotFound if it is nothing."""
        return self._service.contents.get(parse_spec(spec), key)

    def get_many(
        self, spec: str, keys: Sequence[ContentKey]
    ) -> tuple[list[tuple[ContentKey, Content]], Reference]:
        """Returns what the keys hold, those that are there, and where that was read."""
        return self._service.contents.get_many(parse_spec(spec), keys)

    def find_jobs(self, spec: str, key: ContentKey, jobs: Sequence[str]) -> tuple[JobRecord, ...]:
        """Returns the records of those jobs that have written what a key holds."""
        return self._service.jobs.find(parse_spec(spec), key, jobs).items

    def jobs(
        self,
        spec: str,
        key: ContentKey,
        limit: int | None = None,
        token: str | None = None,
        *,
        start: str = "",
        prefix: str = "",
    ) -> Page[JobRecord]:
        """Returns a page of the jobs that have written what a key holds, in order of names."""
        where = parse_spec(spec)
        return self._service.jobs.list(where, key, limit, token, start=start, prefix=prefix)


class History(Group):
    """Commits that were made, and what lies between two states."""

    def log(
        self,
        spec: str = DEFAULT_BRANCH,
        limit: int | None = None,
        token: str | None = None,
        *,
        limit_hash: str | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
    ) -> Page[LogEntry]:
        """Returns a page of commits, the latest first; `fetch_all` adds their operations."""
        return self._service.history.log(
            parse_spec(spec),
            limit,
            token,
            limit_hash=None if limit_hash is None else parse_on_reference(None, limit_hash),
            filter=filter,
            fetch_all=fetch_all,
        )

    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        limit_hash: str | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
    ) -> Iterator[LogEntry]:
        """Yields all commits, the latest first."""
        return all_of(
            lambda token: self.log(
                spec, None, token, limit_hash=limit_hash, filter=filter, fetch_all=fetch_all
            )
        )

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
    ) -> Page[DiffEntry]:
        """Returns a page of the keys that differ."""
        return self._service.history.diff(
            parse_spec(left),
            parse_spec(right),
            limit,
            token,
            keys=keys,
            start=start,
            end=end,
            prefix=prefix,
            filter=filter,
        )

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
    ) -> Iterator[DiffEntry]:
        """Yields all keys that differ."""
        return all_of(
            lambda token: self.diff(
                left,
                right,
                PAGE_ENTRIES_MAX,
                token,
                keys=keys,
                start=start,
                end=end,
                prefix=prefix,
                filter=filter,
            )
        )
