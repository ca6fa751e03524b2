"""Group commit: no reply is sent before what it shows is durable; one flush serves many replies.

1. A handler is done: the number of the last write (its epoch) is noted, and the reply waits unless
   everything up to that number is durable already. So reads wait too, but only while something that
   they may have seen is not yet on the disk.
2. If no flush is under way, the flusher's thread is woken. It flushes up to the newest write, and
   again at once if something newer is waited for by then: it does not wait for the loop.
3. Back on the loop all replies up to that number leave; if others wait by then, it starts again.

A flush that failed ends the process before any success is reported: what the disk holds is unknown,
and a second flush may succeed without having written it. The cause is logged before.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from lochan.kv.store import Store
from lochan.transport.error_boundary import attempt

EXIT_FLUSH_FAILED: Final = 70
"""The exit status of a process that ended because a flush failed."""

_LOG: Final = logging.getLogger("lochan.http")

# The fourth cause in a row is nearly always the message of the operating system.
_CAUSES_MAX: Final = 4


def end_process() -> None:
    """Ends this process now, without any further reply."""
    logging.shutdown()
    os._exit(EXIT_FLUSH_FAILED)


class GroupFlush:
    """Lets replies wait for the disk; everything but `_serve` is the loop's."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        failed: Callable[[], None] = end_process,
    ) -> None:
        self._loop = loop
        self._store = store
        self._failed = failed
        self._needless = store.capabilities.durable_on_return
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._durable = -1
        # The newest write that a reply waits for, or will wait for; the thread reads it.
        self._wanted = -1
        self._under_way = False
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: Thread | None = None
        self.flushes = 0

    @property
    def waiting(self) -> int:
        """How many replies wait for the disk."""
        return len(self._waiting)

    def after(self, done: Callable[[], None]) -> None:
        """Calls `done` when everything that was written so far is durable; at once if it is."""
        if self._needless:
            done()
            return
        epoch = self._epoch()
        if epoch <= self._durable:
            done()
            return
        self._waiting.append((epoch, done))
        self._want(epoch)

    def begin(self) -> None:
        """Starts a flush of what was just written, before its replies are ready to wait for it."""
        if not self._needless:
            self._want(self._epoch())

    def stop(self) -> None:
        """Lets the thread end."""
        if self._thread is not None:
            self._wake.put(False)
            self._thread.join()

    def _epoch(self) -> int:
        try:
            return self._store.epoch()
        except BaseException as error:
            # A store that stopped will never make durable what it has acknowledged.
            self._fail(error)
            raise

    def _want(self, epoch: int) -> None:
        self._wanted = epoch
        if not self._under_way:
            self._start()

    def _start(self) -> None:
        self._under_way = True
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="lochan-flush", daemon=True)
            self._thread.start()
        self._wake.put(True)

    def _serve(self) -> None:
        """Step 2, in a thread of its own: the interpreter is free while the disk works."""
        while self._wake.get():
            goes_on = True
            while goes_on:
                try:
                    epoch = self._store.epoch()
                    self._store.flush(epoch)
                except BaseException as error:
                    self._fail(error)
                    raise
                goes_on = self._wanted > epoch
                self._loop.call_soon_threadsafe(self._flushed, epoch, goes_on)

    def _flushed(self, epoch: int, goes_on: bool) -> None:
        """Step 3; what was written since is being flushed already if it goes on."""
        self.flushes += 1
        self._durable = max(self._durable, epoch)
        waiting = self._waiting
        leaving = []
        while waiting and waiting[0][0] <= epoch:
            leaving.append(waiting.popleft()[1])
        self._under_way = goes_on
        if waiting and not goes_on:
            self._start()
        for done in leaving:
            attempt(done)

    def _fail(self, error: BaseException) -> None:
        _LOG.critical(
            "flush failed: the process ends; everything that was acknowledged is durable cause=%r",
            _describe(error),
        )
        self._failed()


def _describe(error: BaseException) -> str:
    """Returns an error and what caused it, the last cause last."""
    causes: list[str] = []
    found: BaseException | None = error
    while found is not None and len(causes) < _CAUSES_MAX:
        causes.append(f"{type(found).__name__}: {found}")
        found = found.__cause__
    return " <- ".join(causes)
