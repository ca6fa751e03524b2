"""Reads for the followers of event streams: one thread for all feeds of a server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final

from lochan.assembly.events import EventRunner, process_name
from lochan.base.errors import LochanError
from lochan.base.limits.events import STREAM_EVENT_BYTES_MAX, STREAM_POLL_MS
from lochan.catalog.types import ContentTypes
from lochan.events.builder import EventBuilder
from lochan.events.feeds import EventFeeds
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import Ports
from lochan.kernel.settled import SettledChange, SettledObserver
from lochan.process import after_fork
from lochan.wire.events import encode_event

_LOG: Final = logging.getLogger("lochan.events")


class FeedReader:
    """The feeds of a server and the thread that reads them; it is started when there is a feed."""

    def __init__(self, ports: Ports, poll_ms: int = STREAM_POLL_MS) -> None:
        self._poll_s = poll_ms / 1_000
        self._bell = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        encode = partial(encode_event, bytes_max=STREAM_EVENT_BYTES_MAX)
        builder = EventBuilder(ContentTypes(), process_name())
        self.feeds = EventFeeds(ports.clock, threading.Lock, builder, encode, poll_ms=poll_ms)
        self.feeds.wake = self._wake
        after_fork(self, FeedReader._forget)

    def observer(self, runner: EventRunner | None) -> SettledObserver | None:
        """Returns what gets the changes of this process from its start on.

        Without subscriptions nothing does: a repository that is followed is observed from then on.
        """
        return None if runner is None else JointObserver(runner.hub, self.feeds)

    def close(self) -> None:
        """Ends the thread."""
        with self._lock:
            self._is_closed = True
        self._bell.set()
        if self._thread is not None:
            self._thread.join()

    def _forget(self) -> None:
        """A forked process has no reader, and serves no followers."""
        self._thread = None
        self._is_closed = True

    def _wake(self) -> None:
        self._bell.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_closed:
                thread = threading.Thread(target=self._run, name="lochan-event-feeds", daemon=True)
                self._thread = thread
                thread.start()

    def _run(self) -> None:
        while not self._is_closed:
            self._bell.wait(None if self.feeds.is_idle else self._poll_s)
            # Cleared before the feeds are read: what comes later sets it again.
            self._bell.clear()
            try:
                self.feeds.turn()
            except LochanError as error:
                _LOG.warning("event feed not read kind=%s error=%s", error.kind, error.message)


class JointObserver:
    """Passes settled changes on to several observers."""

    def __init__(self, first: SettledObserver, *others: SettledObserver) -> None:
        self._first = first
        self._others: Sequence[SettledObserver] = others

    def begin(self, context: RepositoryContext, name: str) -> int:
        """Returns the number of the first one: the others count no operations."""
        return self._first.begin(context, name)

    def end(self, context: RepositoryContext, name: str, number: int) -> None:
        """Ends an operation."""
        self._first.end(context, name, number)

    def settle(self, context: RepositoryContext, change: SettledChange) -> None:
        """Takes a change that has taken effect."""
        self._first.settle(context, change)
        for other in self._others:
            other.settle(context, change)
