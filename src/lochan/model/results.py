"""What reading and merging give back, and what stands against a write."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from lochan.model.commits import ContentKey
from lochan.model.contents import Content
from lochan.model.references import Reference

_Item = TypeVar("_Item")


class Page(msgspec.Struct, Generic[_Item], frozen=True):
    """Some of a listing; `token` asks for the next page, None at the end.

    `reference` is what was read, pinned to a hash.
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
    """A key and what it holds; the content only where it was asked for.

    One that was asked for and is None has a newer format, which this Lochan cannot read.
    """

    key: ContentKey
    type: str
    content_id: str
    content: Content | None = None


class DiffEntry(msgspec.Struct, frozen=True):
    """A key that differs; None on the side where it is not."""

    key: ContentKey
    left: Content | None
    right: Content | None


class ContentConflict(msgspec.Struct, frozen=True):
    """A key that stands against a write, in words and with all sides that are known."""

    kind: str
    key: ContentKey | None
    message: str
    base: Content | None = None
    source: Content | None = None
    target: Content | None = None


class KeyOutcome(msgspec.Struct, frozen=True):
    """What became of one key of a merge."""

    key: ContentKey
    behaviour: str
    conflict: ContentConflict | None = None


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a merge, transplant, cherry-pick or revert.

    `applied` says that the branch moved; `hash` is its head then, None if nothing was written.
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
