"""References on the wire: listed, created and moved."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from lochan.base.errors import Invalid
from lochan.model.commits import CommitMeta
from lochan.model.references import Annotation, Reference, ReferenceMetadata, ReferenceMove
from lochan.wire.codec import Instant, PageJson, instant, micros
from lochan.wire.metas import (
    CommitMetaV1,
    CommitMetaV2,
    meta_in,
    meta_v1,
    meta_v2,
)

_Meta = TypeVar("_Meta")


class _ReferenceMetadata(msgspec.Struct, Generic[_Meta], frozen=True, rename="camel"):
    """The fields of a reference's metadata, with the meta of either version."""

    num_commits_ahead: int | None
    num_commits_behind: int | None
    commit_meta_of_head: _Meta | None = msgspec.field(name="commitMetaOfHEAD")
    common_ancestor_hash: str | None
    num_total_commits: int | None


class ReferenceMetadataV2(_ReferenceMetadata[CommitMetaV2], frozen=True, rename="camel"):
    """Computed facts about a reference."""


class ReferenceMetadataV1(_ReferenceMetadata[CommitMetaV1], frozen=True, rename="camel"):
    """Computed facts about a reference, version 1."""


class AnnotationJson(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The annotation of a tag; the signature is opaque, in Base64."""

    message: str
    properties: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    signature: str = ""


class ReferenceV2(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A branch, a tag, or (DETACHED) a commit without a name."""

    type: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    hash: str = ""
    metadata: ReferenceMetadataV2 | msgspec.UnsetType = msgspec.UNSET
    expires_at: Instant | msgspec.UnsetType = msgspec.UNSET
    annotation: AnnotationJson | msgspec.UnsetType = msgspec.UNSET


class ReferenceV1(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A branch or a tag, version 1."""

    type: str
    name: str | msgspec.UnsetType = msgspec.UNSET
    hash: str = ""
    metadata: ReferenceMetadataV1 | msgspec.UnsetType = msgspec.UNSET


class SingleReference(msgspec.Struct, frozen=True):
    """One reference."""

    reference: ReferenceV2


class ReferencesV2(PageJson, frozen=True, rename="camel"):
    """A page of references."""

    references: list[ReferenceV2]


class ReferencesV1(PageJson, frozen=True, rename="camel"):
    """A page of references, version 1."""

    references: list[ReferenceV1]


class ReferenceIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A reference that a client names: the source of a new one or the target of a move.

    The fields after the hash are for creating only: `expiresAt` or `ttl` for a branch, `annotation`
    for a tag. The hash may be followed by relative steps.
    """

    type: str | None = None
    name: str | None = None
    hash: str | None = None
    expires_at: Instant | None = None
    ttl: str | None = None
    annotation: AnnotationJson | None = None


class NewReferenceIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One of many references to create; without `source`, a branch without commits."""

    name: str
    type: str = "BRANCH"
    source: str | None = None
    expires_at: Instant | None = None
    ttl: str | None = None
    annotation: AnnotationJson | None = None


class NewReferencesIn(msgspec.Struct, frozen=True):
    """References to create together: all or none."""

    references: tuple[NewReferenceIn, ...]


class ReferenceList(msgspec.Struct, frozen=True):
    """References that were created together, in the order of the request."""

    references: list[ReferenceV2]


class ReferenceStateJson(msgspec.Struct, frozen=True, rename="camel"):
    """A commit that a reference points or pointed to, and whether it can be read."""

    commit_hash: str
    commit_consistency: str
    meta: CommitMetaV2 | None


class ReferenceHistoryJson(msgspec.Struct, frozen=True, rename="camel"):
    """Where a reference points and where it pointed before, the newest first."""

    reference: ReferenceV2
    current: ReferenceStateJson
    previous: list[ReferenceStateJson]
    commit_log_consistency: str


class ReferenceMoveJson(msgspec.Struct, frozen=True, rename="camel"):
    """One move in a ref-log; `oldHash` is null where the reference was created.

    `who` caused it and had the `roles` then, as authentication found out.
    """

    kind: str
    old_hash: str | None
    new_hash: str
    who: str
    when: Instant
    operation: str
    source: str
    base: str
    incarnation: int
    version: int
    roles: tuple[str, ...] = ()


class ReferenceLog(PageJson, frozen=True, rename="camel"):
    """A page of a ref-log, the newest move first."""

    moves: list[ReferenceMoveJson]


def reference_v2(reference: Reference) -> ReferenceV2:
    """Returns a reference as JSON of version 2."""
    name = msgspec.UNSET if reference.name is None else reference.name
    if reference.metadata is None and reference.expires_us is None and reference.annotation is None:
        return ReferenceV2(reference.kind, name, reference.hash)
    return ReferenceV2(
        reference.kind,
        name,
        reference.hash,
        msgspec.UNSET
        if reference.metadata is None
        else ReferenceMetadataV2(*_metadata(reference.metadata, meta_v2)),
        msgspec.UNSET if reference.expires_us is None else instant(reference.expires_us),
        msgspec.UNSET if reference.annotation is None else annotation_out(reference.annotation),
    )


def reference_v1(reference: Reference) -> ReferenceV1:
    """Returns a reference as JSON of version 1."""
    name = msgspec.UNSET if reference.name is None else reference.name
    if reference.metadata is None:
        return ReferenceV1(reference.kind, name, reference.hash)
    metadata = ReferenceMetadataV1(*_metadata(reference.metadata, meta_v1))
    return ReferenceV1(reference.kind, name, reference.hash, metadata)


def _metadata(
    metadata: ReferenceMetadata, meta_out: Callable[[CommitMeta], _Meta]
) -> tuple[int | None, int | None, _Meta | None, str | None, int]:
    return (
        metadata.ahead,
        metadata.behind,
        None if metadata.head is None else meta_out(metadata.head),
        metadata.common_ancestor,
        metadata.total,
    )


def annotation_out(annotation: Annotation) -> AnnotationJson:
    """Returns an annotation as JSON."""
    return AnnotationJson(
        message=annotation.message,
        properties=dict(annotation.properties),
        signature=base64.b64encode(annotation.signature).decode("ascii"),
    )


def annotation_in(annotation: AnnotationJson) -> Annotation:
    """Returns the annotation that JSON describes; Invalid if its signature is not Base64."""
    try:
        signature = base64.b64decode(annotation.signature, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the signature of an annotation is Base64") from None
    return Annotation(
        message=annotation.message,
        properties=tuple(sorted(annotation.properties.items())),
        signature=signature,
    )


def move_out(move: ReferenceMove) -> ReferenceMoveJson:
    """Returns a move as JSON."""
    return ReferenceMoveJson(
        move.kind,
        move.old,
        move.new,
        move.who,
        instant(move.when_us),
        move.operation,
        move.source,
        move.base,
        move.incarnation,
        move.version,
        move.roles,
    )


def move_in(move: ReferenceMoveJson) -> ReferenceMove:
    """Returns the move that JSON describes."""
    return ReferenceMove(
        move.kind,
        move.old_hash,
        move.new_hash,
        move.who,
        micros(move.when),
        move.operation,
        move.source,
        move.base,
        move.incarnation,
        move.version,
        move.roles,
    )


def reference_in(reference: ReferenceV2) -> Reference:
    """Returns the reference that the JSON of a server describes."""
    name, metadata = reference.name, reference.metadata
    expires_at, annotation = reference.expires_at, reference.annotation
    return Reference(
        reference.type,
        None if name is msgspec.UNSET or reference.type == "DETACHED" else name,
        reference.hash,
        None if metadata is msgspec.UNSET else _metadata_in(metadata),
        None,
        None if expires_at is msgspec.UNSET else micros(expires_at),
        None if annotation is msgspec.UNSET else annotation_in(annotation),
    )


def _metadata_in(metadata: ReferenceMetadataV2) -> ReferenceMetadata:
    head = metadata.commit_meta_of_head
    return ReferenceMetadata(
        None if head is None else meta_in(head),
        metadata.num_total_commits or 0,
        metadata.num_commits_ahead,
        metadata.num_commits_behind,
        metadata.common_ancestor_hash,
    )
