"""The meta of a commit: version 2 with lists, version 1 with single values; both are read."""

from __future__ import annotations

import msgspec

from lochan.base.errors import Invalid
from lochan.model.commits import CommitMeta, Properties
from lochan.wire.codec import Instant, instant, instant_to_send, micros


class CommitMetaIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The meta of a commit as a client sends it, in either form; a server sets the last four."""

    message: str
    author: str | None = None
    authors: tuple[str, ...] | None = None
    signed_off_by: str | None = None
    all_signed_off_by: tuple[str, ...] | None = None
    author_time: Instant | None = None
    properties: dict[str, str] | None = None
    all_properties: dict[str, tuple[str, ...]] | None = None
    committer: str | None = None
    commit_time: Instant | None = None
    hash: str | None = None
    parent_commit_hashes: tuple[str, ...] | None = None


class CommitMetaV2(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The meta of a commit, version 2."""

    hash: str | None
    committer: str | None
    authors: tuple[str, ...]
    all_signed_off_by: tuple[str, ...]
    message: str
    commit_time: Instant | None
    author_time: Instant | None
    all_properties: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    parent_commit_hashes: tuple[str, ...] = ()


class CommitMetaV1(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The meta of a commit, version 1."""

    hash: str | None
    committer: str | None
    author: str | None
    signed_off_by: str | None
    message: str
    commit_time: Instant | None
    author_time: Instant | None
    properties: dict[str, str]


def meta_v2(meta: CommitMeta) -> CommitMetaV2:
    """Returns the meta of a commit as JSON of version 2."""
    return CommitMetaV2(
        hash=meta.hash,
        committer=meta.committer,
        authors=meta.authors,
        all_signed_off_by=meta.signed_off_by,
        message=meta.message,
        commit_time=None if meta.commit_time_us is None else instant(meta.commit_time_us),
        author_time=None if meta.author_time_us is None else instant(meta.author_time_us),
        all_properties=dict(meta.properties),
        parent_commit_hashes=meta.parents,
    )


def meta_v1(meta: CommitMeta) -> CommitMetaV1:
    """Returns the meta of a commit as JSON of version 1: the first value of each list."""
    return CommitMetaV1(
        hash=meta.hash,
        committer=meta.committer,
        author=meta.authors[0] if meta.authors else None,
        signed_off_by=meta.signed_off_by[0] if meta.signed_off_by else None,
        message=meta.message,
        commit_time=None if meta.commit_time_us is None else instant(meta.commit_time_us),
        author_time=None if meta.author_time_us is None else instant(meta.author_time_us),
        properties={name: values[0] for name, values in meta.properties if values},
    )


def meta_from_client(meta: CommitMetaIn) -> CommitMeta:
    """Returns the meta that a client sent; Invalid if it sets what only the server may set."""
    if meta.committer is not None:
        raise _set_by_server("committer")
    if meta.commit_time is not None:
        raise _set_by_server("commit time")
    if meta.hash is not None:
        raise _set_by_server("commit hash")
    if meta.parent_commit_hashes:
        raise _set_by_server("parent commit hashes")
    authors = meta.authors
    if authors is None:
        authors = () if meta.author is None else (meta.author,)
    signed = meta.all_signed_off_by
    if signed is None:
        signed = () if meta.signed_off_by is None else (meta.signed_off_by,)
    return CommitMeta(
        message=meta.message,
        authors=authors,
        signed_off_by=signed,
        author_time_us=None if meta.author_time is None else micros(meta.author_time),
        properties=_properties(meta),
    )


def meta_in(meta: CommitMetaV2) -> CommitMeta:
    """Returns the meta that a server sent."""
    return CommitMeta(
        message=meta.message,
        authors=meta.authors,
        signed_off_by=meta.all_signed_off_by,
        author_time_us=None if meta.author_time is None else micros(meta.author_time),
        properties=tuple(sorted(meta.all_properties.items())),
        committer=meta.committer or "",
        commit_time_us=None if meta.commit_time is None else micros(meta.commit_time),
        hash=meta.hash,
        parents=meta.parent_commit_hashes,
    )


def meta_to_send(meta: CommitMeta) -> CommitMetaIn:
    """Returns the meta of a new commit as a client sends it to version 2."""
    return CommitMetaIn(
        message=meta.message,
        authors=meta.authors,
        all_signed_off_by=meta.signed_off_by,
        author_time=None
        if meta.author_time_us is None
        else instant_to_send("authorTime", meta.author_time_us),
        all_properties=dict(meta.properties),
    )


def _set_by_server(name: str) -> Invalid:
    return Invalid(f"Cannot set the {name} on the client side. It is set by the server.")


def _properties(meta: CommitMetaIn) -> Properties:
    if meta.all_properties is not None:
        return tuple(sorted(meta.all_properties.items())) if meta.all_properties else ()
    if not meta.properties:
        return ()
    return tuple(sorted((name, (value,)) for name, value in meta.properties.items()))
