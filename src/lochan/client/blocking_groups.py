"""The methods of the blocking client, in groups; `asynchronous_groups` is the same with `await`.

Each method runs one flow. A test holds both, and the embedded repository, to the same signatures.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.client import merging, namespacing, protocol
from lochan.client.asking import Flow
from lochan.client.values import RecentChanges
from lochan.model.commits import (
    CommitMeta,
    Committed,
    ContentKey,
    JobRecord,
    LogEntry,
    Operation,
)
from lochan.model.contents import Content, Namespace
from lochan.model.references import Annotation, Reference, ReferenceMove
from lochan.model.requests import DEFAULT_BRANCH, KeyResolution, NewReference
from lochan.model.results import DiffEntry, Entry, Merged, Page
from lochan.model.specs import parse_spec

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


class _Run(Protocol):
    """Runs a flow to its end."""

    def __call__(self, flow: Flow[_Result], /) -> _Result: ...


def _iterate(run: _Run, ask: Callable[[str | None], Flow[Page[_Item]]]) -> Iterator[_Item]:
    """Yields the items of all pages; asks for a page when the one before is used up."""
    token: str | None = None
    while True:
        page = run(ask(token))
        yield from page.items
        if page.token is None:
            return
        token = page.token


class _Group:
    """Methods of one kind, on one client."""

    def __init__(self, run: _Run) -> None:
        self._run = run


class References(_Group):
    """Branches and tags."""

    def get(self, name: str = DEFAULT_BRANCH, *, fetch_all: bool = False) -> Reference:
        """Returns a branch or tag; `fetch_all` adds its metadata."""
        return self._run(protocol.get_reference(name, fetch_all=fetch_all))

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
        return self._run(
            protocol.list_references(
                limit, token, filter=filter, fetch_all=fetch_all, prefix=prefix
            )
        )

    def iterate(
        self,
        *,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
        prefix: str = "",
    ) -> Iterator[Reference]:
        """Yields all branches and tags."""
        return _iterate(
            self._run,
            lambda token: protocol.list_references(
                PAGE_ENTRIES_MAX, token, filter=filter, fetch_all=fetch_all, prefix=prefix
            ),
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
        return self._run(protocol.create_reference(new))

    def create_many(self, new: Sequence[NewReference]) -> tuple[Reference, ...]:
        """Makes all of them or none."""
        return self._run(protocol.create_references(new))

    def assign(
        self, name: str, target: str, *, expected: str | None = None, kind: str | None = None
    ) -> Reference:
        """Makes a branch or tag point elsewhere; without `expected`, wherever it is now."""
        return self._run(protocol.assign_reference(name, target, expected, kind))

    def delete(
        self, name: str, *, expected: str | None = None, kind: str | None = None
    ) -> Reference:
        """Takes a branch or tag away; returns what it was."""
        return self._run(protocol.delete_reference(name, expected, kind))

    def log(
        self, name: str, limit: int | None = None, token: str | None = None
    ) -> Page[ReferenceMove]:
        """Returns a page of where a reference has been, the latest first."""
        return self._run(protocol.reference_log(name, limit, token))

    def iterate_log(self, name: str) -> Iterator[ReferenceMove]:
        """Yields everywhere a reference has been, the latest first."""
        return _iterate(
            self._run, lambda token: protocol.reference_log(name, PAGE_ENTRIES_MAX, token)
        )

    def recent_changes(self, name: str, *, scan_commits: bool = False) -> RecentChanges:
        """Returns the recent heads of a reference, and whether their commits are all there."""
        return self._run(protocol.recent_changes(name, scan_commits=scan_commits))


class Contents(_Group):
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
        within = protocol.Within(tuple(keys), start, end, prefix, filter)
        return self._run(protocol.entries(spec, limit, token, within, with_content=with_content))

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
        within = protocol.Within(tuple(keys), start, end, prefix, filter)
        return _iterate(
            self._run,
            lambda token: protocol.entries(
                spec, PAGE_ENTRIES_MAX, token, within, with_content=with_content
            ),
        )

    def get(self, spec: str, key: ContentKey) -> tuple[Content, Reference]:
        """Returns what a key holds, and where that was read; ContentNotFound if it is nothing."""
        return self._run(protocol.get_content(spec, key))

    def get_many(
        self, spec: str, keys: Sequence[ContentKey]
    ) -> tuple[list[tuple[ContentKey, Content]], Reference]:
        """Returns what the keys hold, those that are there, and where that was read."""
        return self._run(protocol.get_contents(spec, keys))

    def find_jobs(self, spec: str, key: ContentKey, jobs: Sequence[str]) -> tuple[JobRecord, ...]:
        """Returns the records of those jobs that have written what a key holds."""
        return self._run(protocol.find_jobs(spec, key, jobs))

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
        return self._run(protocol.list_jobs(spec, key, limit, token, start, prefix))


class History(_Group):
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
        wanted = protocol.LogWish(limit_hash, filter, fetch_all)
        return self._run(protocol.log(spec, limit, token, wanted))

    def iterate(
        self,
        spec: str = DEFAULT_BRANCH,
        *,
        limit_hash: str | None = None,
        filter: str = "",  # noqa: A002 - the name that the API gives it
        fetch_all: bool = False,
    ) -> Iterator[LogEntry]:
        """Yields all commits, the latest first."""
        wanted = protocol.LogWish(limit_hash, filter, fetch_all)
        return _iterate(
            self._run, lambda token: protocol.log(spec, PAGE_ENTRIES_MAX, token, wanted)
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
        within = protocol.Within(tuple(keys), start, end, prefix, filter)
        return self._run(protocol.diff(left, right, limit, token, within))

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
        within = protocol.Within(tuple(keys), start, end, prefix, filter)
        return _iterate(
            self._run, lambda token: protocol.diff(left, right, PAGE_ENTRIES_MAX, token, within)
        )


class Commits(_Group):
    """Changes to a branch."""

    def commit(
        self,
        branch: str,
        message: str | CommitMeta,
        operations: Sequence[Operation],
        *,
        expected: str | None = None,
    ) -> Committed:
        """Commits all operations or none; without `expected`, on what the branch holds now."""
        return self._run(protocol.commit(branch, message, operations, expected))


class Merges(_Group):
    """Changes of one branch brought to another, and branches moved."""

    def merge(
        self,
        branch: str,
        source: str,
        message: str | CommitMeta | None = None,
        *,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = True,
    ) -> Merged:
        """Brings what the source has and the branch lacks into the branch."""
        how = merging.How(default, keys or {}, dry_run, conflicts_as_result, squash)
        return self._run(merging.merge(branch, source, message, expected, how))

    def transplant(
        self,
        branch: str,
        source: str,
        hashes: Sequence[str],
        message: str | CommitMeta | None = None,
        *,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = False,
    ) -> Merged:
        """Makes commits of the source again on the branch, in the order in which they are given."""
        how = merging.How(default, keys or {}, dry_run, conflicts_as_result, squash)
        return self._run(merging.transplant(branch, source, hashes, message, expected, how))

    def cherry_pick(
        self,
        branch: str,
        hashes: Sequence[str],
        message: str | CommitMeta | None = None,
        *,
        source: str | None = None,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = False,
    ) -> Merged:
        """Makes commits again on the branch; one text `a..b` is a range, after a and up to b."""
        how = merging.How(default, keys or {}, dry_run, conflicts_as_result, squash)
        return self._run(merging.cherry_pick(branch, hashes, message, source, expected, how))

    def revert(
        self,
        branch: str,
        hashes: Sequence[str],
        message: str | CommitMeta | None = None,
        *,
        expected: str | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> Merged:
        """Undoes commits by new ones."""
        how = merging.How("NORMAL", {}, dry_run, conflicts_as_result, False)
        return self._run(merging.revert(branch, hashes, message, expected, how))

    def rebase(
        self,
        branch: str,
        onto: str,
        *,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        dry_run: bool = False,
    ) -> Merged:
        """Makes the branch's own commits again on top of something else."""
        how = merging.How(default, keys or {}, dry_run, False, False)
        return self._run(merging.rebase(branch, onto, expected, how))

    def fast_forward(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> Merged:
        """Moves the branch ahead to the source; Conflict unless it only has to move ahead."""
        return self._run(merging.fast_forward(branch, source, expected, dry_run=dry_run))

    def force(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> Merged:
        """Moves the branch to the source, whatever it holds; the ref-log keeps where it was."""
        return self._run(merging.force(branch, source, expected, dry_run=dry_run))


class Namespaces(_Group):
    """Namespaces: what keys below them need to exist."""

    def get(self, spec: str, elements: ContentKey) -> Namespace:
        """Returns a namespace; NamespaceNotFound if there is none."""
        return self._run(namespacing.get(spec, elements))

    def list(self, spec: str = DEFAULT_BRANCH, prefix: ContentKey = ()) -> tuple[Namespace, ...]:
        """Returns the namespaces that start with the prefix."""
        return self._run(namespacing.list_all(spec, prefix))

    def create(
        self, branch: str, elements: ContentKey, properties: Mapping[str, str] | None = None
    ) -> Namespace:
        """Makes a namespace, in a commit of its own."""
        return self._run(namespacing.create(branch, elements, properties or {}))

    def delete(self, branch: str, elements: ContentKey) -> None:
        """Takes an empty namespace away, in a commit of its own."""
        return self._run(namespacing.delete(branch, elements))

    def update(
        self,
        branch: str,
        elements: ContentKey,
        updates: Mapping[str, str] | None = None,
        removals: Sequence[str] = (),
    ) -> None:
        """Changes the properties of a namespace, in a commit of its own."""
        return self._run(namespacing.update(branch, elements, updates or {}, removals))


class RepositorySettings(_Group):
    """What a repository keeps for tools, such as the garbage collector's rules."""

    def get(self, types: Sequence[str] = ("GARBAGE_COLLECTOR",)) -> builtins.list[dict[str, Any]]:
        """Returns the settings of these types, those that were set."""
        return self._run(protocol.get_settings(types))

    def update(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Replaces the settings of one type; returns what they were."""
        return self._run(protocol.update_settings(config))
