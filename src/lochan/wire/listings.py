"""Entries, contents and differences on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lochan.model.commits import ContentKey
from lochan.model.contents import Content
from lochan.model.results import DiffEntry, Entry
from lochan.wire.contents import (
    ContentJson,
    content_in,
    content_out,
    content_v1,
    optional_in,
    optional_out,
)
from lochan.wire.keys import KeyJson
from lochan.wire.references import ReferenceV2


class EntryV2(msgspec.Struct, frozen=True, rename="camel"):
    """A key and what it holds; the content only where it was asked for."""

    type: str
    name: KeyJson
    content_id: str | None = None
    content: ContentJson | None = None


class EntryV1(msgspec.Struct, frozen=True, gc=False):
    """A key and the type of what it holds."""

    type: str
    name: KeyJson


class EntriesV2(msgspec.Struct, frozen=True, rename="camel"):
    """A page of entries, in the order of their keys."""

    has_more: bool
    token: str | None
    entries: list[EntryV2]
    effective_reference: ReferenceV2


class EntriesV1(msgspec.Struct, frozen=True, rename="camel"):
    """A page of entries, version 1."""

    has_more: bool
    token: str | None
    entries: list[EntryV1]


class ContentResponse(msgspec.Struct, frozen=True, rename="camel"):
    """A content and where it was read."""

    content: ContentJson
    effective_reference: ReferenceV2


class ContentWithKey(msgspec.Struct, frozen=True):
    """A content and its key."""

    key: KeyJson
    content: ContentJson


class ContentsRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Keys whose contents are wanted."""

    requested_keys: Annotated[list[KeyJson], msgspec.Meta(min_length=1)]


class ContentsV2(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of the requested keys that exist, and where they were read."""

    contents: list[ContentWithKey]
    effective_reference: ReferenceV2


class ContentsV1(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of the requested keys that exist, version 1."""

    contents: list[ContentWithKey]


class DiffEntryJson(msgspec.Struct, frozen=True, rename={"left": "from", "right": "to"}):
    """A key that differs; null on the side where it is not."""

    key: KeyJson
    left: ContentJson | None
    right: ContentJson | None


class DiffV2(msgspec.Struct, frozen=True, rename="camel"):
    """A page of differences, in the order of their keys."""

    has_more: bool
    token: str | None
    diffs: list[DiffEntryJson]
    effective_from_reference: ReferenceV2
    effective_to_reference: ReferenceV2


class DiffV1(msgspec.Struct, frozen=True, rename="camel"):
    """A page of differences, version 1."""

    has_more: bool
    token: str | None
    diffs: list[DiffEntryJson]


def entry_v2(entry: Entry) -> EntryV2:
    """Returns an entry as version 2 writes it."""
    content = entry.content
    return EntryV2(
        entry.type,
        KeyJson(entry.key),
        entry.content_id,
        None if content is None else content_out(content),
    )


def entry_v1(entry: Entry) -> EntryV1:
    """Returns an entry as version 1 writes it."""
    return EntryV1(entry.type, KeyJson(entry.key))


def entry_in(entry: EntryV2) -> Entry:
    """Reads an entry."""
    return Entry(
        entry.name.elements, entry.type, entry.content_id or "", optional_in(entry.content)
    )


def content_with_key(key: ContentKey, content: Content) -> ContentWithKey:
    """Returns a content and its key as they are written."""
    return ContentWithKey(KeyJson(key), content_out(content))


def content_with_key_v1(key: ContentKey, content: Content) -> ContentWithKey:
    """Returns a content and its key as version 1 writes them."""
    return ContentWithKey(KeyJson(key), content_v1(content))


def content_with_key_in(pair: ContentWithKey) -> tuple[ContentKey, Content]:
    """Reads a content and its key."""
    return pair.key.elements, content_in(pair.content)


def diff_out(entry: DiffEntry) -> DiffEntryJson:
    """Returns a difference as it is written."""
    return DiffEntryJson(KeyJson(entry.key), optional_out(entry.left), optional_out(entry.right))


def diff_v1(entry: DiffEntry) -> DiffEntryJson:
    """Returns a difference as version 1 writes it."""
    left, right = (None if side is None else content_v1(side) for side in (entry.left, entry.right))
    return DiffEntryJson(KeyJson(entry.key), left, right)


def diff_in(entry: DiffEntryJson) -> DiffEntry:
    """Reads a difference."""
    return DiffEntry(entry.key.elements, optional_in(entry.left), optional_in(entry.right))
