"""A locked row: a transaction of its own that ends with the next `apply`.

1. `BEGIN` and `SELECT … FOR UPDATE`, one round trip: the database's queue for a row is the fair
   queue between servers. 2. the caller prepares its write. 3. the same statement as without a lock,
   and `COMMIT`, one round trip. The condition stays in the statement: the lock is for fairness,
   never for correctness.

A crash between 1 and 3 leaves nothing: the server rolls back when the connection ends, or after
two seconds if it does not notice that. A hold that its owner does not end is ended after that time
too.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final

from lochan.base.errors import Unavailable
from lochan.kv.store import Adds, Entry, Outcome, SetIf
from lochan.stores.postgres.session import ANSWER_GRACE_S, HOLD_IDLE_MS, Session

HOLD_TIMEOUT_S: Final = HOLD_IDLE_MS / 1_000 + ANSWER_GRACE_S

Finish = Callable[[Session, Adds, SetIf], Outcome]
"""Sends the last statement of the transaction and translates its result or error."""


class LockedRow:
    """A Hold that owns a session until it is applied, released or abandoned."""

    def __init__(
        self,
        session: Session,
        entry: Entry | None,
        finish: Finish,
        give: Callable[[LockedRow, Session], None],
    ) -> None:
        self._lock = Lock()
        self._session: Session | None = session
        self.entry = entry
        """The row as it was read under the lock."""
        self._finish = finish
        self._give = give

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Writes, commits and unlocks the row."""
        session = self._take()
        if session is None:
            raise Unavailable(
                f"the hold has ended: it was used, released, lasted over {HOLD_IDLE_MS} ms, "
                "or belongs to the process from which this one was forked"
            )
        try:
            return self._finish(session, adds, condition)
        finally:
            self._give(self, session)

    def release(self) -> None:
        """Unlocks the row without writing; harmless after `apply`."""
        session = self._take()
        if session is not None:
            try:
                session.end()
            finally:
                self._give(self, session)

    def abandon(self) -> None:
        """Closes the connection; the server notices that and rolls back."""
        session = self._take()
        if session is not None:
            session.close()
            self._give(self, session)

    def leave_to_parent(self) -> None:
        """Drops the session in a forked process; the parent process still has the row locked."""
        self._lock = Lock()
        self._session = None

    def _take(self) -> Session | None:
        with self._lock:
            session, self._session = self._session, None
        return session
