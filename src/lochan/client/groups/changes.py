"""The methods that change a branch: commits, merges and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lochan.client.methods import Group, Runner, request_method
from lochan.model.commits import CommitMeta, ContentKey, Operation
from lochan.model.requests import (
    CherryPickRequest,
    CommitRequest,
    FastForwardRequest,
    ForceRequest,
    KeyResolution,
    MergeRequest,
    MoveRequest,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import (
    ReferenceSpec,
    parse_commit,
    parse_expected,
    parse_name,
    parse_spec,
)

_Move = TypeVar("_Move", bound=MoveRequest)


class Commits(Group[Runner]):
    """Changes to a branch."""

    @request_method
    def commit(
        self,
        branch: str,
        message: str | CommitMeta,
        operations: Sequence[Operation],
        *,
        expected: str | None = None,
    ) -> CommitRequest:
        """Commits all operations or none; without `expected`, on what the branch holds now."""
        meta = CommitMeta(message=message) if isinstance(message, str) else message
        return CommitRequest(
            branch=parse_name(branch),
            expected=parse_expected(expected),
            meta=meta,
            operations=tuple(operations),
        )


class Merges(Group[Runner]):
    """Changes of one branch brought to another, and branches moved."""

    @request_method
    def merge(
        self,
        branch: str,
        source: str,
        message: str | CommitMeta | None = None,
        *,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        paths: Mapping[str, str] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = True,
    ) -> MergeRequest:
        """Brings the changes that the source has and the branch lacks into the branch."""
        return MergeRequest(
            branch=parse_name(branch),
            source=parse_spec(source),
            meta=_meta(message),
            expected=parse_expected(expected),
            default=default,
            keys=_resolutions(keys),
            paths=dict(paths or {}),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )

    @request_method
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
        paths: Mapping[str, str] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = False,
    ) -> TransplantRequest:
        """Makes adjacent commits of the source again on the branch, in the order given."""
        return TransplantRequest(
            branch=parse_name(branch),
            source=source,
            hashes=_hashes(hashes),
            meta=_meta(message),
            expected=parse_expected(expected),
            default=default,
            keys=_resolutions(keys),
            paths=dict(paths or {}),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )

    @request_method
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
        paths: Mapping[str, str] | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
        squash: bool = False,
    ) -> CherryPickRequest:
        """Makes commits again on the branch; a single `a..b` is a range, after a and up to b."""
        after, dots, last = hashes[0].partition("..") if len(hashes) == 1 else ("", "", "")
        return CherryPickRequest(
            branch=parse_name(branch),
            source=source or "",
            after=parse_commit(after) if dots else None,
            hashes=_hashes([last] if dots else hashes),
            meta=_meta(message),
            expected=parse_expected(expected),
            default=default,
            keys=_resolutions(keys),
            paths=dict(paths or {}),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
            squash=squash,
        )

    @request_method
    def revert(
        self,
        branch: str,
        hashes: Sequence[str],
        message: str | CommitMeta | None = None,
        *,
        expected: str | None = None,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> RevertRequest:
        """Undoes commits by new ones."""
        return RevertRequest(
            branch=parse_name(branch),
            hashes=_hashes(hashes),
            meta=_meta(message),
            expected=parse_expected(expected),
            dry_run=dry_run,
            conflicts_as_result=conflicts_as_result,
        )

    @request_method
    def rebase(
        self,
        branch: str,
        onto: str,
        *,
        expected: str | None = None,
        default: str = "NORMAL",
        keys: Mapping[ContentKey, KeyResolution] | None = None,
        paths: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> RebaseRequest:
        """Makes the branch's own commits again on top of another commit."""
        return RebaseRequest(
            branch=parse_name(branch),
            onto=parse_spec(onto),
            expected=parse_expected(expected),
            default=default,
            keys=_resolutions(keys),
            paths=dict(paths or {}),
            dry_run=dry_run,
        )

    @request_method
    def fast_forward(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> FastForwardRequest:
        """Moves the branch ahead to the source; Conflict if the branch has commits of its own."""
        return _move(FastForwardRequest, branch, source, expected, dry_run=dry_run)

    @request_method
    def force(
        self, branch: str, source: str, *, expected: str | None = None, dry_run: bool = False
    ) -> ForceRequest:
        """Moves the branch to the source, whatever it holds; the ref-log keeps where it was."""
        return _move(ForceRequest, branch, source, expected, dry_run=dry_run)


def _meta(message: str | CommitMeta | None) -> CommitMeta | None:
    return CommitMeta(message=message) if isinstance(message, str) else message


def _resolutions(
    keys: Mapping[ContentKey, KeyResolution] | None,
) -> dict[ContentKey, KeyResolution]:
    return {tuple(key): resolution for key, resolution in (keys or {}).items()}


def _hashes(texts: Sequence[str]) -> tuple[ReferenceSpec, ...]:
    return tuple(parse_commit(text) for text in texts)


def _move(
    kind: type[_Move], branch: str, source: str, expected: str | None, *, dry_run: bool
) -> _Move:
    return kind(
        branch=parse_name(branch),
        source=parse_spec(source),
        expected=parse_expected(expected),
        dry_run=dry_run,
    )
