"""Pages and contents on the wire: entries, contents, differences, namespaces, jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from lochan.model.commits import ContentKey, JobRecord
from lochan.model.contents import Content, Namespace
from lochan.model.results import DiffEntry, Entry
from lochan.wire.codec import PageJson
from lochan.wire.contents import (
    ContentJson,
    content_in,
    content_out,
    optional_in,
)
from lochan.wire.keys import KeyJson
from lochan.wire.references import ReferenceV2


class EntryV2(msgspec.Struct, frozen=True, rename="camel"):
    """A key and its content; the content only if it was requested."""

    type: str
    name: KeyJson
    content_id: str | None = None
    content: ContentJson | None = None


class EntryV1(msgspec.Struct, frozen=True, gc=False):
    """A key and the type of its content."""

    type: str
    name: KeyJson


class EntriesV2(PageJson, frozen=True, rename="camel"):
    """A page of entries, in the order of their keys."""

    entries: list[EntryV2]
    effective_reference: ReferenceV2


class EntriesV1(PageJson, frozen=True, rename="camel"):
    """A page of entries, version 1."""

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
    """Keys whose contents are requested."""

    requested_keys: Annotated[list[KeyJson], msgspec.Meta(min_length=1)]


class ContentsV1(msgspec.Struct, frozen=True, rename="camel"):
    """Contents of the requested keys that exist, version 1."""

    contents: list[ContentWithKey]


class ContentsV2(ContentsV1, frozen=True, rename="camel"):
    """Contents of the requested keys that exist, and where they were read."""

    effective_reference: ReferenceV2


class DiffEntryJson(msgspec.Struct, frozen=True, rename={"left": "from", "right": "to"}):
    """A key that differs; null on the side that does not have it."""

    key: KeyJson
    left: ContentJson | None
    right: ContentJson | None


class DiffV1(PageJson, frozen=True, rename="camel"):
    """A page of differences, version 1."""

    diffs: list[DiffEntryJson]


class DiffV2(DiffV1, frozen=True, rename="camel"):
    """A page of differences, in the order of their keys."""

    effective_from_reference: ReferenceV2
    effective_to_reference: ReferenceV2


def entry_v2(entry: Entry) -> EntryV2:
    """Returns an entry as JSON of version 2."""
    content = entry.content
    return EntryV2(
        entry.type,
        KeyJson(entry.key),
        entry.content_id,
        None if content is None else content_out(content),
    )


def entry_v1(entry: Entry) -> EntryV1:
    """Returns an entry as JSON of version 1."""
    return EntryV1(entry.type, KeyJson(entry.key))


def content_with_key(
    key: ContentKey, content: Content, show: Callable[[Content], Any] = content_out
) -> ContentWithKey:
    """Returns a content and its key as JSON; `show` writes the content for a version."""
    return ContentWithKey(KeyJson(key), show(content))


def content_with_key_in(pair: ContentWithKey) -> tuple[ContentKey, Content]:
    """Returns the key and the content that JSON describes."""
    return pair.key.elements, content_in(pair.content)


def diff_out(entry: DiffEntry, show: Callable[[Content], Any] = content_out) -> DiffEntryJson:
    """Returns a difference as JSON; `show` writes the contents for a version."""
    left, right = entry.left, entry.right
    return DiffEntryJson(
        KeyJson(entry.key),
        None if left is None else show(left),
        None if right is None else show(right),
    )


def diff_in(entry: DiffEntryJson) -> DiffEntry:
    """Returns the difference that JSON describes."""
    return DiffEntry(entry.key.elements, optional_in(entry.left), optional_in(entry.right))


class NamespacesV1(msgspec.Struct, frozen=True):
    """Namespaces below another."""

    namespaces: tuple[Namespace, ...]


class NamespaceUpdateIn(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Properties to set and to remove."""

    property_updates: dict[str, str] | None = None
    property_removals: frozenset[str] | None = None


class JobJson(msgspec.Struct, frozen=True):
    """A job that has written a content, and the facts that it recorded."""

    job: str
    facts: dict[str, str]


class JobsJson(PageJson, frozen=True, rename="camel"):
    """A page of jobs, in the order of their names."""

    jobs: list[JobJson]
    effective_reference: ReferenceV2


def job_out(record: JobRecord) -> JobJson:
    """Returns a record as JSON."""
    return JobJson(record.job, dict(record.facts))


def job_in(record: JobJson) -> JobRecord:
    """Returns the record that JSON describes."""
    return JobRecord(record.job, tuple(sorted(record.facts.items())))
