"""Requests to a repository: one struct for each operation that a user may call.

A request states its operation by its class and carries the arguments. The class names the type of
the result: `RepositoryRequest[Reference]` returns a `Reference`. Everything that runs requests (the
clients over HTTP, the embedded library) takes these values; `service/` takes those of the writes.
None of them needs a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from lochan.base.errors import Invalid
from lochan.model.commits import (
    CommitMeta,
    Committed,
    ContentKey,
    JobRecord,
    LogEntry,
    Operation,
    Properties,
)
from lochan.model.contents import Content, Namespace
from lochan.model.references import Annotation, Reference, ReferenceHistory, ReferenceMove
from lochan.model.results import DiffEntry, Entry, Merged, Page, RepositoryInfo
from lochan.model.specs import ReferenceSpec

DEFAULT_BRANCH = "-"
"""The name that means the default branch of a repository."""

# Clients of the API know the length of a page as a number of 32 bits.
_LIMIT_END: Final = 2**31

EmptyMerge = Literal["never", "new", "always"]
"""When a merge that changes nothing is a commit: never, if the source has commits that the branch
does not have, or always."""

_Result_co = TypeVar("_Result_co", covariant=True)
_Item = TypeVar("_Item")


class RepositoryRequest(msgspec.Struct, Generic[_Result_co], frozen=True, kw_only=True):
    """One operation on one repository, with its arguments; the type parameter is its result."""


class PageRequest(RepositoryRequest[Page[_Item]], Generic[_Item], frozen=True, kw_only=True):
    """One page of a listing; `token` is that of the page before, None for the first page."""

    limit: int | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not 0 < self.limit < _LIMIT_END:
            raise Invalid(f"a page has 1 to {_LIMIT_END - 1} entries, not {self.limit}")


class KeysPageRequest(PageRequest[_Item], Generic[_Item], frozen=True, kw_only=True):
    """One page of a listing by key; a key is listed if it meets all conditions that are given."""

    keys: tuple[ContentKey, ...] = ()
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None
    filter: str = ""


class RepositoryInfoRequest(RepositoryRequest[RepositoryInfo], frozen=True):
    """Reads what a repository states about itself."""


class GetReferenceRequest(RepositoryRequest[Reference], frozen=True, kw_only=True):
    """Reads a branch or tag by its name."""

    name: str
    fetch_all: bool


class ListReferencesRequest(PageRequest[Reference], frozen=True, kw_only=True):
    """Lists branches and tags in the order of their names."""

    filter: str
    fetch_all: bool
    prefix: str


class NewReference(RepositoryRequest[Reference], frozen=True, kw_only=True):
    """A branch or tag to be created at the source; without a source, a branch without commits."""

    name: str
    source: ReferenceSpec | None = ReferenceSpec(DEFAULT_BRANCH)
    kind: str = "BRANCH"
    expires_us: int | None = None
    annotation: Annotation | None = None
    concealed: bool = False
    """Whether listings for lakeFS clients leave the branch out unless they are asked for it."""


class NewReferencesRequest(RepositoryRequest[tuple[Reference, ...]], frozen=True, kw_only=True):
    """Creates references: all of them or none."""

    new: tuple[NewReference, ...]


class AssignReferenceRequest(RepositoryRequest[Reference], frozen=True, kw_only=True):
    """Makes a reference point at another commit."""

    name: str
    target: ReferenceSpec
    expected: ReferenceSpec | None
    kind: str | None


class DeleteReferenceRequest(RepositoryRequest[Reference], frozen=True, kw_only=True):
    """Deletes a reference."""

    name: str
    expected: ReferenceSpec | None
    kind: str | None


class ReferenceLogRequest(PageRequest[ReferenceMove], frozen=True, kw_only=True):
    """Reads the ref-log of a reference, the latest entry first."""

    name: str


class RecentChangesRequest(RepositoryRequest[ReferenceHistory], frozen=True, kw_only=True):
    """Reads the recent heads of a reference."""

    name: str
    scan_commits: bool


class ListEntriesRequest(KeysPageRequest[Entry], frozen=True, kw_only=True):
    """Lists keys in their order."""

    spec: ReferenceSpec
    with_content: bool


class GetContentRequest(RepositoryRequest[tuple[Content, Reference]], frozen=True, kw_only=True):
    """Reads the content of one key."""

    spec: ReferenceSpec
    key: ContentKey


class GetContentsRequest(
    RepositoryRequest[tuple[list[tuple[ContentKey, Content]], Reference]], frozen=True, kw_only=True
):
    """Reads the contents of some keys."""

    spec: ReferenceSpec
    keys: tuple[ContentKey, ...]


class FindJobsRequest(RepositoryRequest[tuple[JobRecord, ...]], frozen=True, kw_only=True):
    """Finds which of some jobs have written the content of a key."""

    spec: ReferenceSpec
    key: ContentKey
    jobs: tuple[str, ...]


class ListJobsRequest(PageRequest[JobRecord], frozen=True, kw_only=True):
    """Lists the jobs that have written the content of a key, in the order of their names."""

    spec: ReferenceSpec
    key: ContentKey
    start: str
    prefix: str


class LogRequest(PageRequest[LogEntry], frozen=True, kw_only=True):
    """Lists commits, the latest first."""

    spec: ReferenceSpec
    limit_hash: ReferenceSpec | None
    filter: str
    fetch_all: bool


class DiffRequest(KeysPageRequest[DiffEntry], frozen=True, kw_only=True):
    """Lists the keys that differ between two states."""

    left: ReferenceSpec
    right: ReferenceSpec


class CommitRequest(RepositoryRequest[Committed], frozen=True, kw_only=True):
    """Operations to be committed to a branch: all of them or none.

    With `staged`, the files that are staged on the branch are in the same commit; then there may be
    no operations. NothingToCommit if nothing changes, unless the commit may be empty.
    """

    branch: str
    expected: ReferenceSpec | None
    meta: CommitMeta
    operations: Sequence[Operation]
    staged: bool = False
    allow_empty: bool = False
    staged_at: str = ""
    """Where the branch was before the caller staged its files: elsewhere the commit may be empty,
    because another one may have taken them."""


class KeyResolution(msgspec.Struct, frozen=True, kw_only=True):
    """How a merge treats one key.

    `behaviour` is NORMAL, FORCE (the source wins), DROP (the target stays) or
    TAKE_TARGET_ON_CONFLICT. `expected_target` is what the caller saw in the target, `resolved` is
    what the key holds after the merge; None for either means no content.
    """

    behaviour: str = "NORMAL"
    expected_target: Content | msgspec.UnsetType | None = msgspec.UNSET
    resolved: Content | msgspec.UnsetType | None = msgspec.UNSET


class BranchRequest(RepositoryRequest[Merged], frozen=True, kw_only=True):
    """A change of a branch by other commits; a dry run writes nothing and returns the outcome."""

    branch: str
    expected: ReferenceSpec | None = None
    dry_run: bool = False


class MergeRequest(BranchRequest, frozen=True, kw_only=True):
    """A merge of a commit into a branch: as one commit, or each commit again.

    `paths` has behaviours, by name, for files; `keys` has resolutions for tables.
    """

    source: ReferenceSpec
    meta: CommitMeta | None = None
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    conflicts_as_result: bool = False
    squash: bool = True
    empty: EmptyMerge = "never"
    """When a merge that changes nothing is a commit all the same."""
    records_source: bool = True
    """Whether the source becomes a parent, so that the next merge begins after it."""


class TransplantRequest(BranchRequest, frozen=True, kw_only=True):
    """Commits of a reference to be made again on a branch, oldest first: each, or all as one."""

    source: str
    hashes: tuple[ReferenceSpec, ...]
    meta: CommitMeta | None = None
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    paths: Mapping[str, str] = msgspec.field(default_factory=dict)
    conflicts_as_result: bool = False
    squash: bool = False
    added: Properties = ()
    """Properties that each commit gets besides its own; not if they are squashed."""


class CherryPickRequest(TransplantRequest, frozen=True, kw_only=True):
    """Commits to be made again on a branch, which need not be adjacent; the source may be empty.

    With `after`, the commits are those of a range: after that one and up to the one in `hashes`.
    """

    after: ReferenceSpec | None = None


class RevertRequest(BranchRequest, frozen=True, kw_only=True):
    """Commits of a branch to be undone by new ones, in the order given."""

    hashes: tuple[ReferenceSpec, ...]
    meta: CommitMeta | None = None
    conflicts_as_result: bool = False


class RebaseRequest(BranchRequest, frozen=True, kw_only=True):
    """A branch whose own commits are to be made again on another head."""

    onto: ReferenceSpec
    default: str = "NORMAL"
    keys: Mapping[ContentKey, KeyResolution] = msgspec.field(default_factory=dict)
    paths: Mapping[str, str] = msgspec.field(default_factory=dict)


class MoveRequest(BranchRequest, frozen=True, kw_only=True):
    """A branch to be moved to a commit."""

    source: ReferenceSpec


class FastForwardRequest(MoveRequest, frozen=True, kw_only=True):
    """A branch to be moved to a commit that has the branch's head among its ancestors."""


class ForceRequest(MoveRequest, frozen=True, kw_only=True):
    """A branch to be moved to any commit."""


class GetNamespaceRequest(RepositoryRequest[Namespace], frozen=True, kw_only=True):
    """Reads a namespace."""

    spec: ReferenceSpec
    elements: ContentKey


class ListNamespacesRequest(RepositoryRequest[tuple[Namespace, ...]], frozen=True, kw_only=True):
    """Lists the namespaces that start with a prefix."""

    spec: ReferenceSpec
    prefix: ContentKey


class CreateNamespaceRequest(RepositoryRequest[Namespace], frozen=True, kw_only=True):
    """Creates a namespace."""

    branch: str
    namespace: Namespace


class DeleteNamespaceRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Deletes a namespace."""

    branch: str
    elements: ContentKey


class UpdateNamespaceRequest(RepositoryRequest[None], frozen=True, kw_only=True):
    """Changes the properties of a namespace."""

    branch: str
    elements: ContentKey
    updates: Mapping[str, str]
    removals: frozenset[str]


class GetSettingsRequest(RepositoryRequest[list[dict[str, Any]]], frozen=True, kw_only=True):
    """Reads settings that a repository keeps."""

    types: tuple[str, ...]


class UpdateSettingsRequest(RepositoryRequest[dict[str, Any] | None], frozen=True, kw_only=True):
    """Replaces the settings of one type; the result is what they were."""

    config: Mapping[str, Any]
