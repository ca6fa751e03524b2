"""A bounded number of sessions, lent to one caller each.

Connecting happens outside the lock. The session used last is lent first, so that those that are not
needed grow old together. A session that cannot be lent again is closed when it comes back, and its
place is free.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Final

from lochan.base.errors import StoreClosed, Unavailable
from lochan.stores.postgres.session import Session

# Several statements of everybody before; who gets none by then is better told.
WAIT_S: Final = 5.0


class Pool:
    """Lends sessions; `take` and `give` come in pairs."""

    def __init__(self, connect: Callable[[], Session], size: int, wait_s: float = WAIT_S) -> None:
        self._connect = connect
        self._size = size
        self._wait_s = wait_s
        self._changed = Condition()
        self._idle: list[Session] = []
        self._lent = 0
        self._closed = False

    def take(self) -> Session:
        """Lends a session; the caller gives it back, in whatever state.

        Raises Unavailable if all were busy for too long or the database cannot be reached.
        """
        with self._changed:
            self._wait_for_a_place()
            self._lent += 1
            kept = self._idle.pop() if self._idle else None
        try:
            while kept is not None and not kept.usable():
                kept.close()
                with self._changed:
                    kept = self._idle.pop() if self._idle else None
            return self._connect() if kept is None else kept
        except BaseException:
            with self._changed:
                self._lent -= 1
                self._changed.notify()
            raise

    def give(self, session: Session) -> None:
        """Takes a session back; one that is broken or in the middle of something is closed."""
        usable = session.usable()
        with self._changed:
            self._lent -= 1
            keep = usable and not self._closed
            if keep:
                self._idle.append(session)
            if self._closed:
                self._changed.notify_all()
            else:
                self._changed.notify()
        if not keep:
            session.close()

    @property
    def closed(self) -> bool:
        """Nothing is lent any more."""
        return self._closed

    def shut(self) -> None:
        """Sends newcomers and those who wait away."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Closes the idle sessions, and waits for those that are lent.

        Every statement ends by its time-out or by the watchdog, so the wait ends too.
        """
        self.shut()
        with self._changed:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._lent)

    def check_open(self) -> None:
        """Raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("the store was closed")

    def _wait_for_a_place(self) -> None:
        """Returns when a session may be lent; the caller has the lock."""
        free = self._changed.wait_for(
            lambda: self._closed or self._lent < self._size, timeout=self._wait_s
        )
        self.check_open()
        if not free:
            raise Unavailable(
                f"all {self._size} connections to the database were busy for {self._wait_s:g} s"
            )
