"""Results of reads and merges, and conflicts."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from lochan.model.commits import ContentKey
from lochan.model.contents import Content
from lochan.model.references import Reference

_Item = TypeVar("_Item")


class Page(msgspec.Struct, Generic[_Item], frozen=True):
    """A part of a listing; `token` requests the next page, None at the end.

    `reference` is the reference that was read, at one hash.
    """

    items: tuple[_Item, ...]
    token: str | None
    reference: Reference | None = None
    other: Reference | None = None
    """The right side of a diff."""


class RepositoryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository states about itself; `created_us` is None if a server does not state it."""

    default_branch: str
    created_us: int | None
    empty_hash: str
    spec_version: str


class Entry(msgspec.Struct, frozen=True):
    """A key and its content; the content only if it was requested.

    A requested content that is None has a newer format, which this Lochan cannot read, or the
    caller may not read it.
    """

    key: ContentKey
    type: str
    content_id: str
    content: Content | None = None


class DiffEntry(msgspec.Struct, frozen=True):
    """A key that differs; None on the side that does not have it."""

    key: ContentKey
    left: Content | None
    right: Content | None


class ContentConflict(msgspec.Struct, frozen=True):
    """A conflict of a write in one key, with a message and all sides that are known."""

    kind: str
    key: ContentKey | None
    message: str
    base: Content | None = None
    source: Content | None = None
    target: Content | None = None
    path: str | None = None
    """The path, if it is a file that is in conflict; `key` then has the path as its one element."""


class PathOutcome(msgspec.Struct, frozen=True):
    """The outcome of one file of a merge."""

    path: str
    behaviour: str
    conflict: ContentConflict | None = None


class KeyOutcome(msgspec.Struct, frozen=True):
    """The outcome of one key of a merge."""

    key: ContentKey
    behaviour: str
    conflict: ContentConflict | None = None


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a merge, transplant, cherry-pick or revert.

    `applied` is true if the branch moved; `hash` is then its head, None if nothing was written.
    """

    branch: str
    applied: bool
    successful: bool
    hash: str | None
    effective_target: str
    expected: str | None = None
    common_ancestor: str | None = None
    keys: tuple[KeyOutcome, ...] = ()
    commits: tuple[str, ...] = ()
    paths: tuple[PathOutcome, ...] = ()
