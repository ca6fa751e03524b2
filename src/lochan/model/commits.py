"""Commits as a user sees them: what is said of them, and what they do."""

from __future__ import annotations

import msgspec

from lochan.model.contents import Content

ContentKey = tuple[str, ...]
"""The elements of a key in the tables' universe."""

Properties = tuple[tuple[str, tuple[str, ...]], ...]
"""Named lists of values, sorted by name."""


class CommitMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a commit; the fields after the properties are the server's to fill."""

    message: str
    authors: tuple[str, ...] = ()
    signed_off_by: tuple[str, ...] = ()
    author_time_us: int | None = None
    properties: Properties = ()
    committer: str = ""
    commit_time_us: int | None = None
    hash: str | None = None
    parents: tuple[str, ...] = ()


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """Writes a content under a key; without an id it is new, with one it changes what is there."""

    key: ContentKey
    content: Content
    expected: Content | None = None


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Takes a key away."""

    key: ContentKey


class Unchanged(msgspec.Struct, frozen=True, kw_only=True):
    """Relies on a key being as it was at the expected hash."""

    key: ContentKey


class RecordJob(msgspec.Struct, frozen=True, kw_only=True):
    """Says that a job has written what the same commit puts at a key.

    The record belongs to the content: it goes where the content goes, through renames, merges,
    picks and reverts. `facts` are what the job wants to know of it later, sorted by name.
    """

    key: ContentKey
    job: str
    facts: tuple[tuple[str, str], ...] = ()


Operation = Put | Delete | Unchanged | RecordJob


class JobRecord(msgspec.Struct, frozen=True):
    """A job that has written a content, and what it said then."""

    job: str
    facts: tuple[tuple[str, str], ...] = ()


class LogEntry(msgspec.Struct, frozen=True):
    """A commit in a log; operations only where they were asked for."""

    meta: CommitMeta
    parent: str
    operations: tuple[Put | Delete, ...] | None = None


class AddedContent(msgspec.Struct, frozen=True, gc=False):
    """A key that was new, and the id that its content got."""

    key: ContentKey
    content_id: str


class Committed(msgspec.Struct, frozen=True):
    """The branch after a commit, and the ids of what was new."""

    branch: str
    hash: str
    added: tuple[AddedContent, ...] = ()
