"""Events: what changed in a repository, as a subscriber gets it.

Each type is a class; its name as a text is `event.type`. More types may come: a subscriber must
leave aside what it does not know.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.contents import Content
from lochan.model.files import FileInfo

COMMIT: Final = "COMMIT"
MERGE: Final = "MERGE"
TRANSPLANT: Final = "TRANSPLANT"
REFERENCE_CREATED: Final = "REFERENCE_CREATED"
REFERENCE_UPDATED: Final = "REFERENCE_UPDATED"
REFERENCE_DELETED: Final = "REFERENCE_DELETED"
CONTENT_STORED: Final = "CONTENT_STORED"
CONTENT_REMOVED: Final = "CONTENT_REMOVED"
FILE_STORED: Final = "FILE_STORED"
FILE_REMOVED: Final = "FILE_REMOVED"
GAP: Final = "GAP"

REFERENCE_TYPES: Final = frozenset({REFERENCE_CREATED, REFERENCE_UPDATED, REFERENCE_DELETED})
COMMITTING_TYPES: Final = frozenset({COMMIT, MERGE, TRANSPLANT})
CONTENT_TYPES: Final = frozenset({CONTENT_STORED, CONTENT_REMOVED})
FILE_TYPES: Final = frozenset({FILE_STORED, FILE_REMOVED})
CHANGE_TYPES: Final = REFERENCE_TYPES | COMMITTING_TYPES | CONTENT_TYPES | FILE_TYPES
EVENT_TYPES: Final = CHANGE_TYPES | {GAP}


class EventReference(msgspec.Struct, frozen=True, gc=False):
    """A branch or a tag: its short name, its full name, its kind.

    `incarnation` differs if the name was deleted and created again.
    """

    name: str
    full_name: str
    kind: str
    incarnation: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What all events have.

    `id` is a UUID that is made of what happened, so an event that comes twice is recognised by it.
    `time_us` is when the change was made, by the clock of the server that made it. `initiator` is
    the authenticated caller, empty if there was none; it had the `roles` then. `version` is that of
    the row of the reference after a move, as in the ref-log, and 0 for commits.
    """

    id: str
    type: str
    time_us: int
    sent_by: str
    initiator: str
    roles: tuple[str, ...]
    repository: str
    reference: EventReference
    version: int
    operation: str


class ReferenceCreated(Event, frozen=True, kw_only=True):
    """A branch or tag was created; `hash_after` is that of a commit, for an annotated tag too."""

    hash_after: str


class ReferenceUpdated(Event, frozen=True, kw_only=True):
    """A reference was pointed elsewhere by an assignment, a reset or a rebase (`cause`)."""

    hash_before: str
    hash_after: str
    cause: str


class ReferenceDeleted(Event, frozen=True, kw_only=True):
    """A branch or tag was deleted; `hash_before` is where it pointed."""

    hash_before: str


class OperationSummary(msgspec.Struct, frozen=True, gc=False):
    """An operation of a commit without its content: PUT or DELETE of a key or of a path."""

    kind: str
    key: ContentKey = ()
    path: str = ""


class CommitMade(Event, frozen=True, kw_only=True):
    """A commit, or one commit of a revert.

    `operations_left_out` is how many operations are not listed, because they are too many.
    """

    hash_before: str
    hash_after: str
    meta: CommitMeta
    operations: tuple[OperationSummary, ...]
    operations_left_out: int = 0


class MergeMade(Event, frozen=True, kw_only=True):
    """A merge, a fast-forward or a forced move of a branch to a source (`cause`).

    `source` is what the caller named: a reference, or a hash.
    """

    source: str
    source_hash: str
    hash_before: str
    hash_after: str
    common_ancestor: str
    cause: str


class TransplantMade(Event, frozen=True, kw_only=True):
    """Commits were transplanted or picked from a source; `commit_count` were made."""

    source: str
    hash_before: str
    hash_after: str
    commit_count: int
    cause: str


class ContentStored(Event, frozen=True, kw_only=True):
    """A key has another content since a commit, a merge or a transplant."""

    hash: str
    commit_time_us: int
    content_type: str
    key: ContentKey
    content: Content


class ContentRemoved(Event, frozen=True, kw_only=True):
    """A key has no content any more."""

    hash: str
    commit_time_us: int
    content_type: str
    key: ContentKey
    content_id: str


class FileStored(Event, frozen=True, kw_only=True):
    """A path has another file."""

    hash: str
    commit_time_us: int
    path: str
    file: FileInfo


class FileRemoved(Event, frozen=True, kw_only=True):
    """A path has no file any more."""

    hash: str
    commit_time_us: int
    path: str


class MissedChanges(msgspec.Struct, frozen=True, gc=False):
    """A reference whose changes are not delivered: where it was before, and where it is after them.

    Before its creation, and after its deletion, the hash is empty; an incarnation that is not known
    is 0.
    """

    name: str
    incarnation_before: int
    hash_before: str
    incarnation_after: int
    hash_after: str


class GapFound(Event, frozen=True, kw_only=True):
    """Changes of a repository that a subscriber does not get, and what it has missed by that.

    `cause` is `age`, if its cursor is older than the limit, or `history`, if the history behind the
    cursor cannot be read. `since_us` is up to when nothing is missing. `reference` is the one that
    was missed; with cause `age` it is empty. `missed_left_out` is how many references are not
    listed, because they are too many.
    """

    cause: str
    since_us: int
    missed: tuple[MissedChanges, ...]
    missed_left_out: int = 0


class OtherEvent(Event, frozen=True, kw_only=True):
    """An event as a client reads it: of a type that it does not know, or with fields left out.

    `fields` is what it has besides the common fields, as it was sent.
    """

    fields: dict[str, Any]


EVENT_CLASSES: Final[dict[str, type[Event]]] = {
    COMMIT: CommitMade,
    MERGE: MergeMade,
    TRANSPLANT: TransplantMade,
    REFERENCE_CREATED: ReferenceCreated,
    REFERENCE_UPDATED: ReferenceUpdated,
    REFERENCE_DELETED: ReferenceDeleted,
    CONTENT_STORED: ContentStored,
    CONTENT_REMOVED: ContentRemoved,
    FILE_STORED: FileStored,
    FILE_REMOVED: FileRemoved,
    GAP: GapFound,
}
"""The class of each type."""
