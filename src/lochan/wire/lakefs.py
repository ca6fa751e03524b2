"""Shapes of the lakeFS API: what its clients send and read, in their names and units.

Times are seconds since 1970. A field that a client leaves out and one that is null are the same.
Unknown fields are ignored, as lakeFS ignores them: clients of other versions send some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from lochan.base.ids import EMPTY_ID
from lochan.model.commits import CommitMeta, Properties
from lochan.model.files import FileDifference, FileInfo, FileItem, FileMetadata, FilePrefix

BINARY: Final = "application/octet-stream"
FIRST_MESSAGE: Final = "Repository created"
"""The message of the synthetic first commit: our empty hash."""

AMOUNT_MAX: Final = 1_000
AMOUNT_DEFAULT: Final = 100

_SECOND: Final = 1_000_000
_OBJECT: Final = "object"
_PREFIX: Final = "common_prefix"


class MessageJson(msgspec.Struct, frozen=True):
    """An error."""

    message: str


class Pagination(msgspec.Struct, frozen=True):
    """Where a page ends; the next one begins after `next_offset`."""

    has_more: bool
    next_offset: str
    results: int
    max_per_page: int = AMOUNT_MAX


class LakefsPageJson(msgspec.Struct, frozen=True):
    """A page of a listing."""

    pagination: Pagination
    results: list[Any]


class LakefsRepositoryJson(msgspec.Struct, frozen=True):
    """A repository."""

    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    storage_id: str = ""
    read_only: bool = False


class RepositoryIn(msgspec.Struct, frozen=True):
    """A repository to be created."""

    name: str
    storage_namespace: str
    default_branch: str | None = None
    storage_id: str | None = None
    sample_data: bool | None = None
    read_only: bool | None = None


class RefJson(msgspec.Struct, frozen=True):
    """A branch or a tag."""

    id: str
    commit_id: str


class BranchIn(msgspec.Struct, frozen=True):
    """A branch to be created."""

    name: str
    source: str
    hidden: bool | None = None


class TagIn(msgspec.Struct, frozen=True):
    """A tag to be created."""

    id: str
    ref: str


class CommitJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """A commit."""

    id: str
    parents: tuple[str, ...]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str]
    generation: int | None = None
    version: int | None = None


class CommitIn(msgspec.Struct, frozen=True):
    """A commit to be made of what is staged."""

    message: str = ""
    metadata: dict[str, str] | None = None
    date: int | None = None
    allow_empty: bool | None = None


class CommitOverrides(msgspec.Struct, frozen=True):
    """What a commit that is made of another one has instead."""

    message: str | None = None
    metadata: dict[str, str] | None = None


class RevertIn(msgspec.Struct, frozen=True):
    """A commit to be undone."""

    ref: str
    parent_number: int = 0
    commit_overrides: CommitOverrides | None = None
    allow_empty: bool | None = None


class CherryPickIn(msgspec.Struct, frozen=True):
    """A commit to be made again."""

    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None


class MergeIn(msgspec.Struct, frozen=True):
    """How a merge is made."""

    message: str | None = None
    metadata: dict[str, str] | None = None
    strategy: str | None = None
    allow_empty: bool | None = None
    squash_merge: bool | None = None


class MergeJson(msgspec.Struct, frozen=True):
    """The commit of a merge."""

    reference: str


class MergeBaseJson(msgspec.Struct, frozen=True):
    """Where two histories parted."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class LakefsResetIn(msgspec.Struct, frozen=True):
    """What staged changes are dropped."""

    type: str
    path: str | None = None


class LakefsObjectJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object, or a common prefix of some."""

    path: str
    path_type: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int | None = None
    metadata: dict[str, str] | None = None
    content_type: str | None = None
    physical_address_expiry: int | None = None


class DiffJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that differs."""

    type: str
    path: str
    path_type: str
    size_bytes: int | None = None
    right: dict[str, Any] | None = None


class LakefsCopyIn(msgspec.Struct, frozen=True):
    """The source of a copy."""

    src_path: str
    src_ref: str | None = None
    shallow: bool | None = None


class LakefsPathsIn(msgspec.Struct, frozen=True):
    """Paths of objects."""

    paths: list[str]


class ObjectErrors(msgspec.Struct, frozen=True):
    """What could not be deleted: nothing, because all are deleted or none."""

    errors: list[MessageJson]


class UserMetadataIn(msgspec.Struct, frozen=True):
    """The metadata that replaces that of an object."""

    set: dict[str, str]


class StagingLocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the bytes of an object go."""

    physical_address: str | None = None
    presigned_url: str | None = None
    presigned_url_expiry: int | None = None


class LakefsLinkIn(msgspec.Struct, frozen=True):
    """What a client states about an object whose bytes it has written."""

    staging: StagingLocation
    checksum: str
    size_bytes: int
    user_metadata: dict[str, str] | None = None
    content_type: str | None = None


class StagedObjectIn(msgspec.Struct, frozen=True):
    """An object of an object store that becomes one of a branch."""

    physical_address: str
    checksum: str
    size_bytes: int
    mtime: int | None = None
    metadata: dict[str, str] | None = None
    content_type: str | None = None
    force: bool | None = None


class SignedUploadJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """An upload in parts that the client sends to signed URLs."""

    upload_id: str
    physical_address: str
    presigned_urls: list[str] | None = None


class SignedUploadIn(msgspec.Struct, frozen=True):
    """Which upload a request is about."""

    physical_address: str


class SignedPartIn(msgspec.Struct, frozen=True):
    """A part that was sent."""

    part_number: int
    etag: str


class SignedPartsIn(msgspec.Struct, frozen=True):
    """The parts that an object is made of."""

    physical_address: str
    parts: list[SignedPartIn]
    user_metadata: dict[str, str] | None = None
    content_type: str | None = None


class SignedPartJson(msgspec.Struct, frozen=True):
    """Where one part is sent."""

    presigned_url: str


class ImportLocation(msgspec.Struct, frozen=True):
    """Objects of an object store, and the path that they get."""

    type: str
    path: str
    destination: str


class LakefsImportIn(msgspec.Struct, frozen=True):
    """An import."""

    paths: list[ImportLocation]
    commit: CommitIn


class IdJson(msgspec.Struct, frozen=True):
    """The id of what was started."""

    id: str


class ImportStatusJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far an import is."""

    completed: bool
    update_time: str
    ingested_objects: int | None = None
    metarange_id: str | None = None
    commit: CommitJson | None = None
    error: MessageJson | None = None


class KeyIn(msgspec.Struct, frozen=True):
    """An access key."""

    access_key_id: str
    secret_access_key: str


class LakefsSetupIn(msgspec.Struct, frozen=True):
    """The first user."""

    username: str
    key: KeyIn | None = None


class CredentialsJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """An access key; with its secret when it is made."""

    access_key_id: str
    creation_date: int
    secret_access_key: str | None = None


class LakefsTokenJson(msgspec.Struct, frozen=True):
    """A login."""

    token: str
    token_expiration: int


class LakefsUserJson(msgspec.Struct, frozen=True):
    """A user."""

    id: str
    creation_date: int


class CurrentUserJson(msgspec.Struct, frozen=True):
    """Who calls."""

    user: LakefsUserJson


class UserIn(msgspec.Struct, frozen=True):
    """A user to be created."""

    id: str


class MetadataIn(msgspec.Struct, frozen=True):
    """Names and values for a repository."""

    metadata: dict[str, str]


class MetadataKeysIn(msgspec.Struct, frozen=True):
    """Names that a repository shall not have."""

    keys: list[str]


class ProtectionRule(msgspec.Struct, frozen=True):
    """A pattern of protected branches."""

    pattern: str


class RetentionRule(msgspec.Struct, frozen=True):
    """How many days a branch keeps what was removed."""

    branch_id: str
    retention_days: int


class RetentionRules(msgspec.Struct, frozen=True):
    """How many days what was removed is kept."""

    default_retention_days: int
    branches: list[RetentionRule]


def seconds(time_us: int | None) -> int:
    """Returns a time in seconds."""
    return (time_us or 0) // _SECOND


def properties_in(metadata: dict[str, str] | None) -> Properties:
    """Returns the metadata of a commit as its properties."""
    return tuple(sorted((name, (value,)) for name, value in (metadata or {}).items()))


def commit_out(meta: CommitMeta, created_us: int, generation: int | None = None) -> CommitJson:
    """Returns a commit; the empty hash is the synthetic first one."""
    digits = meta.hash or ""
    is_first = digits == EMPTY_ID.hex()
    return CommitJson(
        id=digits,
        parents=meta.parents,
        committer=meta.committer,
        message=FIRST_MESSAGE if is_first else meta.message,
        creation_date=seconds(created_us if is_first else meta.commit_time_us),
        meta_range_id=digits,
        metadata={name: ",".join(values) for name, values in meta.properties},
        generation=generation,
        version=1,
    )


def metadata_in(metadata: dict[str, str] | None) -> FileMetadata:
    """Returns the metadata of an object."""
    return tuple(sorted((metadata or {}).items()))


def object_out(item: FileItem, namespace: str, *, with_metadata: bool = True) -> LakefsObjectJson:
    """Returns an object or a common prefix."""
    if isinstance(item, FilePrefix):
        return LakefsObjectJson(item.path, _PREFIX, "", "", 0)
    return LakefsObjectJson(
        path=item.path,
        path_type=_OBJECT,
        physical_address=address_out(item.address, namespace),
        checksum=item.etag,
        mtime=seconds(item.modified_us),
        size_bytes=item.size,
        metadata=dict(item.metadata) if with_metadata else None,
        content_type=item.content_type or BINARY,
    )


def address_out(address: str, namespace: str) -> str:
    """Returns where bytes are: an address of the repository is shown below its namespace."""
    return address if ":" in address else f"{namespace}/{address}"


def diff_out(item: FileDifference, *, with_right: bool = False) -> DiffJson:
    """Returns a path that differs."""
    if isinstance(item, FilePrefix):
        return DiffJson("prefix_changed", item.path, _PREFIX)
    after = item.after
    size = 0 if after is None else after.size
    right = None if after is None or not with_right else _right(after)
    return DiffJson(item.kind, item.path, _OBJECT, size, right)


def _right(info: FileInfo) -> dict[str, Any]:
    return {
        "checksum": info.etag,
        "mtime": seconds(info.modified_us),
        "content_type": info.content_type or BINARY,
        "metadata": dict(info.metadata),
    }


def page_out(results: Sequence[Any], last: str, *, has_more: bool) -> LakefsPageJson:
    """Returns a page whose last item has this name."""
    offset = last if has_more else ""
    return LakefsPageJson(Pagination(has_more, offset, len(results)), list(results))
