"""Branches and tags of an embedded repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lochan.base.errors import Invalid
from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.client.values import RecentChanges, RecentHead
from lochan.embedded.lane_runner import Group, all_of
from lochan.model.references import Annotation, Reference, ReferenceMove
from lochan.model.requests import DEFAULT_BRANCH, NewReference
from lochan.model.results import Page
from lochan.model.specs import parse_spec


class References(Group):
    """Branches and tags."""

    def get(self, name: str = DEFAULT_BRANCH, *, fetch_all: bool = False) -> Reference:
        """Returns a branch or tag; `fetch_all` adds its metadata."""
        if any(mark in name for mark in "@~^*"):
            raise Invalid(f"a branch or tag is fetched by its name alone, not by {name[:80]!r}")
        return self._service.references.get(name, fetch_all=fetch_all)

    def list(
        self,
        limit: int | None = None,
        token: str | None = None,
        *,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
        prefix: str = "",
    ) -> Page[Reference]:
        """Returns a page of branches and tags, in the order of their names."""
        return self._service.references.list(
            limit, token, filter=filter, fetch_all=fetch_all, prefix=prefix
        )

    def iterate(
        self,
        *,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
        prefix: str = "",
    ) -> Iterator[Reference]:
        """Yields all branches and tags."""
        return all_of(
            lambda token: self.list(
                PAGE_ENTRIES_MAX, token, filter=filter, fetch_all=fetch_all, prefix=prefix
            )
        )

    def create(
        self,
        name: str,
        source: str | None = DEFAULT_BRANCH,
        *,
        kind: str = "BRANCH",
        expires_us: int | None = None,
        annotation: Annotation | None = None,
    ) -> Reference:
        """Makes a branch or tag where the source is; None makes a branch without any commit."""
        new = NewReference(
            name=name,
            source=None if source is None else parse_spec(source),
            kind=kind,
            expires_us=expires_us,
            annotation=annotation,
        )
        return self.create_many([new])[0]

    def create_many(self, new: Sequence[NewReference]) -> tuple[Reference, ...]:
        """Makes all of them or none."""
        return self._doing.on_lane(lambda: self._service.references.create_many(self._call, new))

    def assign(
        self, name: str, target: str, *, expected: str | None = None, kind: str | None = None
    ) -> Reference:
        """Makes a branch or tag point elsewhere; without `expected`, wherever it is now."""
        name, seen = self._doing.target(name, expected)
        return self._doing.durably(
            lambda: self._service.references.assign(
                self._call, name, seen, parse_spec(target), kind=kind
            )
        )

    def delete(
        self, name: str, *, expected: str | None = None, kind: str | None = None
    ) -> Reference:
        """Takes a branch or tag away; returns what it was."""
        name, seen = self._doing.target(name, expected)
        return self._doing.durably(
            lambda: self._service.references.delete(self._call, name, seen, kind=kind)
        )

    def log(
        self, name: str, limit: int | None = None, token: str | None = None
    ) -> Page[ReferenceMove]:
        """Returns a page of where a reference has been, the latest first."""
        return self._service.references.log(name, limit or PAGE_ENTRIES_MAX, token)

    def iterate_log(self, name: str) -> Iterator[ReferenceMove]:
        """Yields everywhere a reference has been, the latest first."""
        return all_of(lambda token: self.log(name, None, token))

    def recent_changes(self, name: str, *, scan_commits: bool = False) -> RecentChanges:
        """Returns the recent heads of a reference, and whether their commits are all there."""
        found = self._service.references.recent_changes(name, scan_commits=scan_commits)
        current, *previous = (
            RecentHead(each.hash, each.consistent) for each in (found.current, *found.previous)
        )
        return RecentChanges(found.reference, current, tuple(previous))
