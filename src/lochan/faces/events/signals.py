"""Wakes the followers of a feed on the event loop; a follower that waits holds no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from lochan.base.limits.events import STREAM_HEARTBEAT_MS
from lochan.events.feeds import Feed

_HEARTBEAT_S: Final = STREAM_HEARTBEAT_MS / 1_000


class FollowerSignals:
    """What followers wait for; everything but `report` is the loop's."""

    def __init__(self, heartbeat_s: float = _HEARTBEAT_S) -> None:
        self._heartbeat_s = heartbeat_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Feed, list[asyncio.Future[None]]] = {}
        self._beats = False

    async def wait(self, feed: Feed) -> None:
        """Returns after something new in a feed, or when a sign of life is due.

        A follower that has looked for something new before, on the loop, misses nothing.
        """
        loop = self._loop = asyncio.get_running_loop()
        if not self._beats:
            self._beats = True
            loop.call_later(self._heartbeat_s, self._beat)
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(feed, []).append(waiter)
        await waiter

    def report(self, feeds: Sequence[Feed]) -> None:
        """Wakes the followers of feeds; for any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake, tuple(feeds))
            except RuntimeError:
                # The loop was closed meanwhile: nothing is followed any more.
                return

    def _wake(self, feeds: Sequence[Feed]) -> None:
        for feed in feeds:
            for waiter in self._waiting.pop(feed, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _beat(self) -> None:
        self._beats = bool(self._waiting)
        self._wake(tuple(self._waiting))
        if self._beats and self._loop is not None:
            self._loop.call_later(self._heartbeat_s, self._beat)
