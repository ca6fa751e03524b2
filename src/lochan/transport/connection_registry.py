"""What all connections of a server share: the clock, the driver, the limits, the list of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from lochan.base.limits.http import (
    HTTP_HEADER_TIMEOUT_S,
    HTTP_IDLE_TIMEOUT_S,
    HTTP_LINGER_S,
    HTTP_PROGRESS_TIMEOUT_S,
)
from lochan.transport.response_heads import Heads

if TYPE_CHECKING:
    from lochan.transport.connection import Connection
    from lochan.transport.driver import Driver
    from lochan.transport.request_reader import RequestReader


class Timeouts(msgspec.Struct, frozen=True):
    """How long a client may take for each thing."""

    header_s: float = HTTP_HEADER_TIMEOUT_S
    progress_s: float = HTTP_PROGRESS_TIMEOUT_S
    idle_s: float = HTTP_IDLE_TIMEOUT_S
    linger_s: float = HTTP_LINGER_S

    @property
    def tick_s(self) -> float:
        """How often deadlines are looked at."""
        return min(0.5, self.header_s / 4, self.progress_s / 4, self.idle_s / 4)


class ConnectionRegistry:
    """The state that the connections of all listeners share; one clock ticks for all of them.

    A timer for each request would cost more than all other work of `transport` for it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        driver: Driver,
        timeouts: Timeouts,
    ) -> None:
        self._loop = loop
        self.driver = driver
        self._quotas = driver.context.quotas
        self.timeouts = timeouts
        self.connections: set[Connection] = set()
        self.watched: set[RequestReader] = set()
        """Connections with a body under way, whose progress is looked at."""
        self.request_bytes_max = driver.context.request_bytes_max
        self.heads = Heads()
        self.now = 0.0
        self.held_bytes = 0
        """Bytes of bodies that are being read, wait or are served, of all connections."""
        self.stopping = False
        self._prefix = os.urandom(6).hex()
        self._requests = 0
        self._timer: asyncio.TimerHandle | None = None
        self._all_gone: Callable[[], None] | None = None
        self.tick()

    def new_request_id(self) -> str:
        """Makes an id that no other request has."""
        self._requests += 1
        return f"{self._prefix}-{self._requests:x}"

    def read_clock(self) -> float:
        """Returns the time; `now` is that of the last tick, so that reading it costs nothing."""
        return self._loop.time()

    def tick(self) -> None:
        """Reads the clock, and ends connections whose deadline has passed."""
        self.now = now = self._loop.time()
        self.heads.set_time(time.time())
        for connection in [each for each in self.connections if each.deadline < now]:
            connection.time_out()
        for reader in list(self.watched):
            reader.check_progress()
        self._quotas.forget_idle(now)
        self._timer = self._loop.call_later(self.timeouts.tick_s, self.tick)

    def forget(self, connection: Connection) -> None:
        """Notes that a connection is gone."""
        self.connections.discard(connection)
        self.watched.discard(connection)
        if not self.connections and self._all_gone is not None:
            self._all_gone()

    async def drain(self, timeout_s: float) -> None:
        """Closes idle connections, lets the others finish, and cuts those that do not."""
        self.stopping = True
        gone = asyncio.Event()
        self._all_gone = gone.set
        for connection in list(self.connections):
            connection.drain()
        if self.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), timeout_s)
        self.cut()

    def cut(self) -> None:
        """Cuts all connections."""
        for connection in list(self.connections):
            connection.abort()

    def close(self) -> None:
        """Stops the clock."""
        if self._timer is not None:
            self._timer.cancel()
