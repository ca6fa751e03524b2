"""What a user requests of a repository: one struct for each kind of write.

The command line, the client, every protocol and the embedded library build these values; `service/`
takes them. None of them needs a store.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.contents import Content
from lochan.model.references import Annotation
from lochan.model.specs import ReferenceSpec

DEFAULT_BRANCH = "-"
"""The name that stands for a repository's default branch."""


class NewReference(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag to be created at the source; without a source, a branch without commits."""

    name: str
    source: ReferenceSpec | None = ReferenceSpec(DEFAULT_BRANCH)
    kind: str = "BRANCH"
    expires_us: int | None = None
    annotation: Annotation | None = None


class KeyResolution(msgspec.Struct, frozen=True, kw_only=True):
    """How a merge treats one key.

    `behaviour` is NORMAL, FORCE (the source wins), DROP (the target stays) or
    TAKE_TARGET_ON_CONFLICT. `expected_target` is what the caller saw in the target, `resolved` is
    what the key holds after the merge; None for either means no content.
    """

    behaviour: str = "NORMAL"
    expected_target: Content | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Content | msgspec.UnsetType | None = msgspec.UNSET


class MergeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A merge of a commit into a branch: as one commit, or each commit again."""

    branch: str
    expected: ReferenceSpec | None
    source: ReferenceSpec
    meta: CommitMeta | None = None
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    dry_run: bool = False
    conflicts_as_result: bool = False
    squash: bool = True


class TransplantRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of a reference to be made again on a branch, oldest first: each, or all as one."""

    branch: str
    expected: ReferenceSpec | None
    source: str
    hashes: tuple[ReferenceSpec, ...]
    meta: CommitMeta | None = None
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    dry_run: bool = False
    conflicts_as_result: bool = False
    squash: bool = False


class RevertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of a branch to be undone by new ones, in the order given."""

    branch: str
    expected: ReferenceSpec | None
    hashes: tuple[ReferenceSpec, ...]
    meta: CommitMeta | None = None
    dry_run: bool = False
    conflicts_as_result: bool = False


class RebaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A branch whose own commits are to be made again on another head."""

    branch: str
    onto: ReferenceSpec
    expected: ReferenceSpec | None = None
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    dry_run: bool = False


class MoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A branch to be moved to a commit: by a fast-forward, or by force."""

    branch: str
    source: ReferenceSpec
    expected: ReferenceSpec | None = None
    dry_run: bool = False
