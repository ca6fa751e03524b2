"""Which callers have staged files on a branch and have not committed since, and where it was then.

Several clients that upload and commit on one branch take each other's files: the commit of one has
those of the others. A later commit then finds nothing. Whether it was overtaken, or is a client
that commits twice, is decided by *notes*: a client that stages a file leaves a note with the head
of the branch before that, and a commit takes one. If the branch has moved since the noted head, the
commit was overtaken and may be empty.

A note belongs to a caller (principal and credential) and a branch. `connection` is evidence of
which client of the caller it is, and no more than that: a client may stage over one connection and
commit over another, and clients may share connections.

- A commit takes the note of its own connection, if there is one. Else it takes the oldest recent
  one of its caller, which then counts for the connection that left it and for no third one.
- While only one connection of a caller is in use, several files that it stages leave one note, so
  a second commit of one client is refused. If others are in use too, each further file leaves a
  note for any connection, because it may be that of another client that shares the connection.

So a client that commits again over several connections may get an empty commit where lakeFS refuses
one, for half a minute. Notes are in the memory of one server, and so many at most: what is
forgotten costs an overtaken client the answer "no changes", and never an object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import LochanError
from lochan.base.limits.files import (
    STAGED_NOTES_ELSEWHERE_US,
    STAGED_NOTES_MAX,
    STAGED_NOTES_OF_CALLER_MAX,
    STAGED_NOTES_US,
)
from lochan.base.ports import Clock, Lock

_Key = tuple[str, str, str]


class _Note(msgspec.Struct, frozen=True, gc=False):
    """The head of a branch before a client staged something, and when that was."""

    head: str
    noted_us: int


class _Notes:
    """The notes of one caller on one branch."""

    def __init__(self) -> None:
        self.own: dict[object, _Note] = {}
        # Those that a commit over another connection may take, the oldest first.
        self.open: deque[_Note] = deque(maxlen=STAGED_NOTES_OF_CALLER_MAX)
        # When each connection was used last; the one that is forgotten first is at the start.
        self.used_us: dict[object, int] = {}

    def use(self, connection: object, now_us: int) -> None:
        """Notes that a connection is in use."""
        self.used_us.pop(connection, None)
        self.used_us[connection] = now_us
        if len(self.used_us) > STAGED_NOTES_OF_CALLER_MAX:
            del self.used_us[next(iter(self.used_us))]

    def has_others(self, connection: object, now_us: int) -> bool:
        """Returns whether another connection was used lately."""
        for other, used_us in reversed(self.used_us.items()):
            if other is not connection:
                # No other one was used later.
                return _is_within(STAGED_NOTES_ELSEWHERE_US, used_us, now_us)
        return False

    def add(self, connection: object, note: _Note) -> None:
        """Adds a note; the first one of a connection is its own."""
        self.open.append(note)
        earlier = self.own.get(connection)
        if earlier is not None and _is_within(STAGED_NOTES_US, earlier.noted_us, note.noted_us):
            return
        self.own.pop(connection, None)
        self.own[connection] = note
        if len(self.own) > STAGED_NOTES_OF_CALLER_MAX:
            del self.own[next(iter(self.own))]

    def take(self, connection: object, now_us: int) -> _Note | None:
        """Returns the note of a connection, or else the oldest recent one, and forgets it."""
        own = self.own.pop(connection, None)
        if own is not None and own in self.open:
            self.open.remove(own)
        if own is not None and _is_within(STAGED_NOTES_US, own.noted_us, now_us):
            return own
        while self.open:
            note = self.open.popleft()
            if _is_within(STAGED_NOTES_ELSEWHERE_US, note.noted_us, now_us):
                return note
        return None


class StagedHeads:
    """The notes of one repository on one server; for any number of threads."""

    def __init__(self, read_head: Callable[[str], str], clock: Clock, lock: Lock) -> None:
        self._read_head = read_head
        self._clock = clock
        self._lock = lock
        self._notes: dict[_Key, _Notes] = {}

    def note(self, call: Call, branch: str, connection: object) -> None:
        """Notes the head of a branch, before a client stages something on it."""
        if not self._is_wanted(call, branch, connection):
            return
        try:
            head = self._read_head(branch)
        except LochanError:
            # What the client is about to do fails too, with the error that it may see.
            return
        with self._lock:
            now_us, notes = self._clock.now_us(), self._of(call, branch)
            notes.add(connection, _Note(head, now_us))

    def _is_wanted(self, call: Call, branch: str, connection: object) -> bool:
        with self._lock:
            now_us, notes = self._clock.now_us(), self._of(call, branch)
            notes.use(connection, now_us)
            note = notes.own.get(connection)
            if note is None or not _is_within(STAGED_NOTES_US, note.noted_us, now_us):
                return True
            return notes.has_others(connection, now_us)

    def take(self, call: Call, branch: str, connection: object) -> str:
        """Returns a head that a client of this caller has noted, and forgets it; empty if none."""
        with self._lock:
            key, now_us = _key(call, branch), self._clock.now_us()
            notes = self._notes.get(key)
            if notes is None:
                return ""
            notes.use(connection, now_us)
            taken = notes.take(connection, now_us)
            return "" if taken is None else taken.head

    def forget(self, call: Call, branch: str) -> None:
        """Forgets the notes of a caller, because what was staged is dropped."""
        with self._lock:
            self._notes.pop(_key(call, branch), None)

    def _of(self, call: Call, branch: str) -> _Notes:
        """Returns the notes of a caller; those that were used last are at the end."""
        key = _key(call, branch)
        notes = self._notes.pop(key, None) or _Notes()
        self._notes[key] = notes
        if len(self._notes) > STAGED_NOTES_MAX:
            del self._notes[next(iter(self._notes))]
        return notes


def _is_within(limit_us: int, then_us: int, now_us: int) -> bool:
    return 0 <= now_us - then_us < limit_us


def _key(call: Call, branch: str) -> _Key:
    return call.principal, call.credential or "", branch
