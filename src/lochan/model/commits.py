"""Commits as a user sees them: their meta and their operations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.base.keys import table_key
from lochan.model.contents import Content

ContentKey = tuple[str, ...]
"""The elements of a key in the tables' universe."""


def content_key(elements: Sequence[str]) -> ContentKey:
    """Returns a key after checking it; InvalidKey if a content cannot have it."""
    key = tuple(elements)
    table_key(key)
    return key


Properties = tuple[tuple[str, tuple[str, ...]], ...]
"""Named lists of values, sorted by name."""


class CommitMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The meta of a commit; the server sets the fields after the properties."""

    message: str
    authors: tuple[str, ...] = ()
    signed_off_by: tuple[str, ...] = ()
    author_time_us: int | None = None
    properties: Properties = ()
    committer: str = ""
    commit_time_us: int | None = None
    hash: str | None = None
    parents: tuple[str, ...] = ()


class Put(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Writes a content under a key; without an id it is new, with an id it changes an old one."""

    key: ContentKey
    content: Content
    expected: Content | None = None


class Delete(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Removes a key."""

    key: ContentKey


class Unchanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Requires that a key is unchanged since the expected hash."""

    key: ContentKey


class RecordJob(msgspec.Struct, frozen=True, kw_only=True):
    """Records the job that has written the content which the same commit puts.

    The record belongs to the content: it goes where the content goes, through renames, merges,
    picks and reverts. `facts` are names and values for the job's later use, sorted by name.
    """

    key: ContentKey
    job: str
    facts: tuple[tuple[str, str], ...] = ()


Operation = Put | Delete | Unchanged | RecordJob


class JobRecord(msgspec.Struct, frozen=True):
    """A job that has written a content, and the facts that it recorded."""

    job: str
    facts: tuple[tuple[str, str], ...] = ()


class LogEntry(msgspec.Struct, frozen=True):
    """A commit in a log; operations only if they were requested."""

    meta: CommitMeta
    parent: str
    operations: tuple[Put | Delete, ...] | None = None


class AddedContent(msgspec.Struct, frozen=True, gc=False):
    """A new key, and the id of its content."""

    key: ContentKey
    content_id: str


class Committed(msgspec.Struct, frozen=True):
    """The branch after a commit, and the ids of new contents."""

    branch: str
    hash: str
    added: tuple[AddedContent, ...] = ()
    meta: CommitMeta | None = None
    """The meta of the commit, if the use case has it at hand."""
