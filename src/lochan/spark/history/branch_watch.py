"""Waits for changes of a branch on the event stream of its server.

What the stream reports is a hint: the head of the branch is asked for after it, and each second in
any case. So a feed misses nothing if the server has no stream, refuses it, or is away: then the
head is asked for each time, as often as Spark asks.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from lochan.base.errors import LochanError
from lochan.base.limits.spark_reads import SPARK_ASK_S, SPARK_WAIT_S, SPARK_WATCH_AGAIN_S
from lochan.client import Client
from lochan.client.event_streams import EventStream
from lochan.model.events import COMMITTING_TYPES, REFERENCE_TYPES

_TYPES: Final = sorted(COMMITTING_TYPES | REFERENCE_TYPES)


class BranchWatch:
    """Follows one branch in a thread; one for each stream reader."""

    def __init__(self, client: Client, ref: str) -> None:
        self._client = client
        self._ref = ref
        self._changed = threading.Event()
        self._stream: EventStream | None = None
        self._is_following = False
        self._is_stopped = False
        self._begun_s = 0.0
        self._asked_s = 0.0

    def may_have_changed(self) -> bool:
        """Waits for a moment; returns whether the head of the branch has to be asked for."""
        self._begin()
        if self._is_following:
            self._changed.wait(SPARK_WAIT_S)
        now_s = time.monotonic()
        is_due = now_s - self._asked_s >= SPARK_ASK_S
        if not (is_due or self._changed.is_set() or not self._is_following):
            return False
        # Cleared before the head is read: what comes later sets it again.
        self._changed.clear()
        self._asked_s = now_s
        return True

    def stop(self) -> None:
        """Lets the thread end with the next sign of life of the server."""
        self._is_stopped = True
        if self._stream is not None:
            self._stream.end()

    def _begin(self) -> None:
        if self._is_following or self._is_stopped:
            return
        now_s = time.monotonic()
        if self._begun_s and now_s - self._begun_s < SPARK_WATCH_AGAIN_S:
            return
        self._begun_s = now_s
        self._is_following = True
        threading.Thread(target=self._follow, name="lochan-branch-watch", daemon=True).start()

    def _follow(self) -> None:
        try:
            self._stream = self._client.events(self._ref, types=_TYPES)
            with self._stream as stream:
                for _ in stream:
                    self._changed.set()
        except LochanError:
            # Without a stream the head is asked for each time.
            return
        finally:
            self._is_following = False
            self._changed.set()
