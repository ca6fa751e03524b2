"""Merges, transplants, cherry-picks, reverts, rebases and moves on the wire."""

from __future__ import annotations

import msgspec

from lochan.model.results import KeyOutcome, Merged, PathOutcome
from lochan.wire.contents import ContentJson
from lochan.wire.keys import KeyJson
from lochan.wire.metas import CommitMetaIn
from lochan.wire.problems import ConflictJson, conflict_in, conflict_out


class KeyBehaviourIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How one key is merged; with `expectedTargetContent` also a resolution.

    A content that is null is ignored, as in Nessie. The two flags are Lochan's own: the target is
    expected to have no content, and the key has no content after the merge.
    """

    key: KeyJson
    merge_behavior: str = "NORMAL"
    expected_target_content: ContentJson | msgspec.UnsetType | None = msgspec.UNSET
    resolved_content: ContentJson | msgspec.UnsetType | None = msgspec.UNSET
    expected_target_absent: bool | msgspec.UnsetType = msgspec.UNSET
    resolved_absent: bool | msgspec.UnsetType = msgspec.UNSET


class _MergeFields(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The fields that all these requests share; both spellings of the two flags are read."""

    message: str | None = None
    commit_meta: CommitMetaIn | None = None
    key_merge_modes: tuple[KeyBehaviourIn, ...] | None = None
    path_merge_modes: dict[str, str] | None = None
    """How single files are merged, by their paths; not in Nessie's API."""
    default_key_merge_mode: str | None = None
    is_dry_run: bool | None = None
    dry_run: bool | None = None
    is_fetch_additional_info: bool | None = None
    is_return_conflict_as_result: bool | None = None
    return_conflict_as_result: bool | None = None

    def only_try(self) -> bool:
        """Returns whether nothing may be written, by either spelling."""
        return bool(self.is_dry_run) or bool(self.dry_run)

    def conflicts_as_result(self) -> bool:
        """Returns whether conflicts are a result and not an error, by either spelling."""
        return bool(self.is_return_conflict_as_result) or bool(self.return_conflict_as_result)


class MergeBody(_MergeFields, frozen=True, rename="camel", kw_only=True):
    """A merge; `squash: false` replays the commits of the source one by one."""

    from_ref_name: str
    from_hash: str | None = None
    squash: bool | None = None
    keep_individual_commits: bool | None = None


class TransplantBody(_MergeFields, frozen=True, rename="camel", kw_only=True):
    """A transplant of commits, the oldest first; `squash: true` makes one commit of them."""

    from_ref_name: str
    hashes_to_transplant: tuple[str, ...]
    squash: bool | None = None
    keep_individual_commits: bool | None = None


class CherryPickBody(_MergeFields, frozen=True, rename="camel", kw_only=True):
    """A cherry-pick of commits in the order given, or of a range `a..b`: after a, up to b."""

    hashes: tuple[str, ...] | None = None
    range: str | None = None
    from_ref_name: str | None = None
    squash: bool | None = None


class RevertBody(_MergeFields, frozen=True, rename="camel", kw_only=True):
    """A revert of commits in the order given."""

    hashes: tuple[str, ...]


class RebaseBody(_MergeFields, frozen=True, rename="camel", kw_only=True):
    """A rebase of the branch onto another reference or commit."""

    onto: str


class MoveBody(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Moves the branch to another reference or commit: forward only, or by force."""

    source: str
    is_dry_run: bool | None = None
    dry_run: bool | None = None

    def only_try(self) -> bool:
        """Returns whether nothing may be written, by either spelling."""
        return bool(self.is_dry_run) or bool(self.dry_run)


class KeyDetailsV2(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of one key."""

    key: KeyJson
    merge_behavior: str
    conflict: ConflictJson | msgspec.UnsetType = msgspec.UNSET


class PathDetailsV2(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of one file."""

    path: str
    merge_behavior: str
    conflict: ConflictJson | msgspec.UnsetType = msgspec.UNSET


class KeyDetailsV1(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of one key, version 1."""

    key: KeyJson
    merge_behavior: str
    conflict_type: str
    source_commits: tuple[str, ...] = ()
    target_commits: tuple[str, ...] = ()


class _MergeOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that the outcome of a merge begins with, in both versions."""

    was_applied: bool
    was_successful: bool
    resultant_target_hash: str | None
    common_ancestor: str | None
    target_branch: str
    effective_target_hash: str
    expected_hash: str | None


class MergeV2(_MergeOutcome, frozen=True, rename="camel"):
    """The outcome; `commits` only where Nessie has no such operation.

    `pathDetails`, the outcomes of files, are for clients that are not Nessie's.
    """

    details: list[KeyDetailsV2]
    commits: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    path_details: list[PathDetailsV2] | msgspec.UnsetType = msgspec.UNSET


class MergeV1(_MergeOutcome, frozen=True, rename="camel"):
    """The outcome, version 1."""

    details: list[KeyDetailsV1]
    source_commits: tuple[str, ...] = ()
    target_commits: tuple[str, ...] | None = None


def merge_v2(merged: Merged, *, with_commits: bool = False, with_paths: bool = True) -> MergeV2:
    """Returns the outcome of a merge as version 2 writes it."""
    return MergeV2(
        *_outcome(merged),
        [_details_v2(each) for each in merged.keys],
        merged.commits if with_commits else msgspec.UNSET,
        [_path_details(each) for each in merged.paths]
        if with_paths and merged.paths
        else msgspec.UNSET,
    )


def merge_v1(merged: Merged) -> MergeV1:
    """Returns the outcome of a merge as version 1 writes it."""
    return MergeV1(*_outcome(merged), [_details_v1(each) for each in merged.keys])


def _outcome(merged: Merged) -> tuple[bool, bool, str | None, str | None, str, str, str | None]:
    return (
        merged.applied,
        merged.successful,
        merged.hash,
        merged.common_ancestor,
        merged.branch,
        merged.effective_target,
        merged.expected,
    )


def _details_v2(outcome: KeyOutcome) -> KeyDetailsV2:
    if outcome.conflict is None:
        return KeyDetailsV2(KeyJson(outcome.key), outcome.behaviour)
    return KeyDetailsV2(KeyJson(outcome.key), outcome.behaviour, conflict_out(outcome.conflict))


def _path_details(outcome: PathOutcome) -> PathDetailsV2:
    if outcome.conflict is None:
        return PathDetailsV2(outcome.path, outcome.behaviour)
    return PathDetailsV2(outcome.path, outcome.behaviour, conflict_out(outcome.conflict))


def path_outcome_in(details: PathDetailsV2) -> PathOutcome:
    """Reads the outcome of one file."""
    conflict = None if details.conflict is msgspec.UNSET else conflict_in(details.conflict)
    return PathOutcome(details.path, details.merge_behavior, conflict)


def _details_v1(outcome: KeyOutcome) -> KeyDetailsV1:
    conflict = "NONE" if outcome.conflict is None else "UNRESOLVABLE"
    return KeyDetailsV1(KeyJson(outcome.key), outcome.behaviour, conflict)


def key_outcome_in(details: KeyDetailsV2) -> KeyOutcome:
    """Reads the outcome of one key."""
    conflict = None if details.conflict is msgspec.UNSET else conflict_in(details.conflict)
    return KeyOutcome(details.key.elements, details.merge_behavior, conflict)
