"""A pool of a bounded number of sessions, each lent to one caller at a time.

Connecting happens outside the lock. The session used last is lent first. A session that cannot be
lent again is closed when it is returned, and another one may be opened.

At most half of the sessions are lent to holds: a caller that holds a row also reads, and if every
session belonged to a hold, all callers would wait for each other.

A forked process starts with an empty pool; it abandons the sessions of its parent (`session`).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Lock
from typing import Final

from lochan.base.errors import StoreClosed, Unavailable
from lochan.process import after_fork
from lochan.stores.postgres.session import Session

# Time for several statements of each earlier caller; after that an error is better than waiting.
WAIT_S: Final = 5.0


class Pool:
    """Lends sessions; `take` and `give` come in pairs."""

    def __init__(self, connect: Callable[[], Session], size: int, wait_s: float = WAIT_S) -> None:
        self._connect = connect
        self._size = size
        self._held_max = max(1, size // 2)
        self._wait_s = wait_s
        self.closed = False
        """Whether no session is lent any more."""
        self._begin()
        after_fork(self, Pool._begin)

    def _begin(self) -> None:
        """Starts with no session and fresh locks, in a forked process too."""
        self._lock = Lock()
        # One waiter is woken for each free place, so the two reasons to wait have a condition each.
        self._session_free = Condition(self._lock)
        self._hold_free = Condition(self._lock)
        self._idle: list[Session] = []
        self._lent = 0
        self._held = 0

    def check_open(self) -> None:
        """Raises StoreClosed after `shut`."""
        if self.closed:
            raise StoreClosed("the store was closed")

    def take(self, *, to_hold: bool = False) -> Session:
        """Lends a session; the caller gives it back, in whatever state.

        Raises Unavailable if all were busy for too long or the database cannot be reached.
        """
        self._take_place(to_hold=to_hold)
        try:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            while kept is not None and not kept.usable():
                kept.close()
                with self._lock:
                    kept = self._idle.pop() if self._idle else None
            return self._connect() if kept is None else kept
        except BaseException:
            with self._lock:
                self._free_place(held=to_hold)
            raise

    def give(self, session: Session, *, held: bool = False) -> None:
        """Takes a session back; one that is broken or in the middle of something is closed."""
        if session.abandoned:
            # Lent by the pool of the parent process.
            return
        usable = session.usable()
        with self._lock:
            keep = usable and not self.closed
            if keep:
                self._idle.append(session)
            self._free_place(held=held)
        if not keep:
            session.close()

    def shut(self) -> None:
        """Refuses new callers and those that wait."""
        with self._lock:
            self.closed = True
            self._session_free.notify_all()
            self._hold_free.notify_all()

    def close(self) -> None:
        """Closes the idle sessions, and waits for those that are lent.

        Every statement ends by its time-out or by the watchdog, so the wait ends too.
        """
        self.shut()
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()
        with self._lock:
            self._session_free.wait_for(lambda: not self._lent)

    def _take_place(self, *, to_hold: bool) -> None:
        """Waits until one more session may be lent, and counts it."""
        with self._lock:
            if to_hold:
                self._wait(self._hold_free, lambda: self._held < self._held_max)
                self._held += 1
            try:
                self._wait(self._session_free, lambda: self._lent < self._size)
            except BaseException:
                if to_hold:
                    self._held -= 1
                    self._hold_free.notify()
                raise
            self._lent += 1

    def _free_place(self, *, held: bool) -> None:
        """Counts one less; the caller has the lock."""
        self._lent -= 1
        if held:
            self._held -= 1
            self._hold_free.notify()
        if self.closed:
            self._session_free.notify_all()
        else:
            self._session_free.notify()

    def _wait(self, changed: Condition, free: Callable[[], bool]) -> None:
        """Returns when there is a place; the caller has the lock."""
        found = changed.wait_for(lambda: self.closed or free(), timeout=self._wait_s)
        self.check_open()
        if not found:
            what = "connections to the database" if changed is self._session_free else "holds"
            most = self._size if changed is self._session_free else self._held_max
            raise Unavailable(f"all {most} {what} were busy for {self._wait_s:g} s")
