"""Commits, merges, namespaces and settings of an embedded repository."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from lochan.embedded.lane_runner import Group
from lochan.model import requests as asks
from lochan.model.commits import CommitMeta, Committed, ContentKey, Operation
from lochan.model.contents import Namespace
from lochan.model.requests import DEFAULT_BRANCH, KeyResolution
from lochan.model.results import Merged
from lochan.model.specs import ReferenceSpec, parse_spec


class Commits(Group):
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
        branch, seen = self._doing.target(branch, expected)
        meta = CommitMeta(message=message) if isinstance(message, str) else message
        return self._doing.on_lane(
            lambda: self._service.commits.commit(self._call, branch, seen, meta, operations)
        )


class Merges(Group):
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
        branch, seen = self._doing.target(branch, expected)
        ask = asks.MergeRequest(
            branch=branch,
            expected=seen,
            source=parse_spec(source),
            meta=_meta(message),
            default=default,
            keys=_wishes(keys),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )
        return self._doing.on_lane(lambda: self._service.merges.merge(self._call, ask))

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
        branch, seen = self._doing.target(branch, expected)
        ask = asks.TransplantRequest(
            branch=branch,
            expected=seen,
            source=source,
            hashes=_specs(hashes),
            meta=_meta(message),
            default=default,
            keys=_wishes(keys),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )
        return self._doing.on_lane(lambda: self._service.merges.transplant(self._call, ask))

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
        branch, seen = self._doing.target(branch, expected)
        ask = asks.TransplantRequest(
            branch=branch,
            expected=seen,
            source=source or "",
            hashes=self._line(hashes),
            meta=_meta(message),
            default=default,
            keys=_wishes(keys),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )
        return self._doing.on_lane(lambda: self._service.merges.cherry_pick(self._call, ask))

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
        branch, seen = self._doing.target(branch, expected)
        ask = asks.RevertRequest(
            branch=branch,
            expected=seen,
            hashes=_specs(hashes),
            meta=_meta(message),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
        )
        return self._doing.on_lane(lambda: self._service.merges.revert(self._call, ask))

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
        branch, seen = self._doing.target(branch, expected)
        ask = asks.RebaseRequest(
            branch=branch,
            onto=parse_spec(onto),
            expected=seen,
            default=default,
            keys=_wishes(keys),
            dry_run=dry_run,
        )
        return self._doing.durably(lambda: self._service.merges.rebase(self._call, ask))

    def fast_forward(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> Merged:
        """Moves the branch ahead to the source; Conflict unless it only has to move ahead."""
        branch, seen = self._doing.target(branch, expected)
        ask = asks.MoveRequest(
            branch=branch, source=parse_spec(source), expected=seen, dry_run=dry_run
        )
        return self._doing.durably(lambda: self._service.merges.fast_forward(self._call, ask))

    def force(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> Merged:
        """Moves the branch to the source, whatever it holds; the ref-log keeps where it was."""
        branch, seen = self._doing.target(branch, expected)
        ask = asks.MoveRequest(
            branch=branch, source=parse_spec(source), expected=seen, dry_run=dry_run
        )
        return self._doing.durably(lambda: self._service.merges.force(self._call, ask))

    def _line(self, hashes: Sequence[str]) -> tuple[ReferenceSpec, ...]:
        """Returns the commits to pick; those of a range `a..b` from the oldest on."""
        first, dots, last = hashes[0].partition("..") if len(hashes) == 1 else ("", "", "")
        if dots:
            hashes = self._service.history.between(parse_spec(first), parse_spec(last))
        return _specs(hashes)


class Namespaces(Group):
    """Namespaces: what keys below them need to exist."""

    def get(self, spec: str, elements: ContentKey) -> Namespace:
        """Returns a namespace; NamespaceNotFound if there is none."""
        return self._service.namespaces.get(parse_spec(spec), elements)

    def list(self, spec: str = DEFAULT_BRANCH, prefix: ContentKey = ()) -> tuple[Namespace, ...]:
        """Returns the namespaces that start with the prefix."""
        return self._service.namespaces.list(parse_spec(spec), prefix)

    def create(
        self, branch: str, elements: ContentKey, properties: Mapping[str, str] | None = None
    ) -> Namespace:
        """Makes a namespace, in a commit of its own."""
        made = Namespace(elements=tuple(elements), properties=dict(properties or {}))
        return self._doing.on_lane(
            lambda: self._service.namespaces.create(self._call, branch, None, made)
        )

    def delete(self, branch: str, elements: ContentKey) -> None:
        """Takes an empty namespace away, in a commit of its own."""
        gone = tuple(elements)
        return self._doing.on_lane(
            lambda: self._service.namespaces.delete(self._call, branch, None, gone)
        )

    def update(
        self,
        branch: str,
        elements: ContentKey,
        updates: Mapping[str, str] | None = None,
        removals: Sequence[str] = (),
    ) -> None:
        """Changes the properties of a namespace, in a commit of its own."""
        name, changed, removed = tuple(elements), dict(updates or {}), set(removals)
        change = self._service.namespaces.update
        return self._doing.on_lane(lambda: change(self._call, branch, None, name, changed, removed))


class RepositorySettings(Group):
    """What a repository keeps for tools, such as the garbage collector's rules."""

    def get(self, types: Sequence[str] = ("GARBAGE_COLLECTOR",)) -> builtins.list[dict[str, Any]]:
        """Returns the settings of these types, those that were set."""
        return self._service.settings.get(types)

    def update(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Replaces the settings of one type; returns what they were."""
        return self._doing.durably(lambda: self._service.settings.update(self._call, dict(config)))


def _specs(texts: Sequence[str]) -> tuple[ReferenceSpec, ...]:
    return tuple(parse_spec(text) for text in texts)


def _meta(message: str | CommitMeta | None) -> CommitMeta | None:
    return CommitMeta(message=message) if isinstance(message, str) else message


def _wishes(keys: Mapping[ContentKey, KeyResolution] | None) -> dict[ContentKey, KeyResolution]:
    return {tuple(key): wish for key, wish in (keys or {}).items()}
