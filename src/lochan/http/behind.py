"""The server behind its front: starts it, serves what it hands on, starts it again should it end.

The front (`front.py`) reads and writes HTTP. If it ends by itself, everything that its clients wait
for is cancelled as if each of them had gone, and another one takes over the same listening socket.
One that cannot stay alive ends the server: nobody could reach it anyway.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from lochan.base.errors import Unavailable
from lochan.base.limits import FRONT_STARTS_MAX, FRONT_STARTS_WITHIN_S, HTTP_JOINED_BYTES_MAX
from lochan.http.driver import Driver, Running
from lochan.http.exchange import Request, Response
from lochan.http.frames import (
    Answer,
    Ask,
    Begin,
    Cancel,
    Count,
    End,
    Joint,
    decode_from_front,
)
from lochan.http.front import FrontSpec
from lochan.http.hygiene import Framing
from lochan.http.listener import Timeouts
from lochan.http.problems import plain_problem

_LOG: Final = logging.getLogger("lochan.http")
_REAP_S: Final = 5.0


class Behind:
    """Serves what one front hands on."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        driver: Driver,
        joined: socket.socket,
        lost: Callable[[], None],
    ) -> None:
        self._driver = driver
        self._joint = Joint(loop, joined, self._received, self._ended)
        self._lost = lost
        self._running: dict[int, Running] = {}
        self._answered_at_once = 0
        self.connections = 0

    def _received(self, frame: memoryview) -> None:
        message = decode_from_front(frame)
        if isinstance(message, Ask):
            self._start(message)
        elif isinstance(message, Count):
            self.connections = message.connections
        elif isinstance(message, Cancel):
            running = self._running.pop(message.number, None)
            if running is not None:
                running.cancel()
        else:
            self._give_up(message.number)

    def _ended(self) -> None:
        self.connections = 0
        running, self._running = self._running, {}
        for each in running.values():
            each.cancel()
        self._lost()

    def begin(self) -> None:
        """Lets the front accept clients."""
        self._joint.put(Begin())

    def end(self, drain_s: float) -> None:
        """Lets the front answer what is under way, and end."""
        self._joint.put(End(drain_s))

    def _start(self, ask: Ask) -> None:
        number = ask.number
        request = Request(ask.method, ask.path, ask.query, ask.headers, ask.body, ask.request_id)
        framing = Framing(
            content_encoding=ask.content_encoding,
            accept_encoding=ask.accept_encoding,
            traceparent=ask.traceparent,
        )
        self._answered_at_once = 0
        running = self._driver.run(request, framing, partial(self._reply, number))
        if self._answered_at_once != number:
            self._running[number] = running

    def _reply(self, number: int, response: Response) -> None:
        if self._running.pop(number, None) is None:
            self._answered_at_once = number
        status, body, headers, kind = (
            response.status,
            response.body,
            response.headers,
            response.content_type,
        )
        if len(body) > HTTP_JOINED_BYTES_MAX:
            self._joint.put(Answer(number, status, b"", headers, kind, True), body)
        else:
            self._joint.put(Answer(number, status, body, headers, kind))

    def _give_up(self, number: int) -> None:
        running = self._running.get(number)
        if running is not None and running.give_up():
            # Whoever still reads is told that nothing happened.
            text = "the connection was closed while this waited; it was taken back"
            self._reply(number, plain_problem(Unavailable(text, public=text)))


class FrontDoor:
    """The front as the server sees it: a process, and how to talk to it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        driver: Driver,
        listener: socket.socket,
        names: frozenset[bytes],
        timeouts: Timeouts,
        failed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._driver = driver
        self._listener = listener
        self._names = tuple(sorted(name.decode() for name in names))
        self._timeouts = timeouts
        self._failed = failed
        self._process: subprocess.Popen[bytes] | None = None
        self._behind: Behind | None = None
        self._stopping = False
        self._gone = asyncio.Event()
        self._starts: list[float] = []
        self._starting: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """How many clients are connected, as the front said last."""
        return 0 if self._behind is None else self._behind.connections

    @property
    def pid(self) -> int | None:
        """The front's process."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts a front that listens; clients that came meanwhile wait in the socket's queue."""
        ours, theirs = socket.socketpair()
        spec = FrontSpec(self._listener.fileno(), theirs.fileno(), self._names, self._timeouts)
        text = msgspec.json.encode(spec).decode()
        self._process = subprocess.Popen(  # noqa: S603 - our own module, and no shell
            [sys.executable, "-P", "-m", "lochan.http.front", text],
            stdin=subprocess.DEVNULL,
            pass_fds=(spec.listening_fd, spec.server_fd),
            # Ctrl-C is for the server; it tells the front what to do.
            start_new_session=True,
        )
        theirs.close()
        self._starts.append(self._loop.time())
        self._behind = Behind(self._loop, self._driver, ours, self._ended)
        self._behind.begin()

    async def stop(self, drain_s: float) -> None:
        """Lets the front answer what is under way; it is ended if that takes longer."""
        self._stopping = True
        if self._starting is not None:
            await self._starting
        # Whoever comes now is refused, not kept waiting at a door that will not open.
        self._listener.close()
        if self._behind is not None and self._process is not None:
            self._behind.end(drain_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), drain_s + _REAP_S)
            self.cut()
            await self._loop.run_in_executor(None, self._process.wait)

    def cut(self) -> None:
        """Ends the front now."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _ended(self) -> None:
        self._gone.set()
        if self._stopping:
            return
        _LOG.error("the front ended by itself; another one is started")
        soon = self._loop.time() - FRONT_STARTS_WITHIN_S
        self._starts = [moment for moment in self._starts if moment > soon]
        if len(self._starts) >= FRONT_STARTS_MAX:
            _LOG.critical("the front ended %d times in a row; the server stops", len(self._starts))
            self._failed()
            return
        self._starting = self._loop.create_task(self._again())

    async def _again(self) -> None:
        if self._process is not None:
            self.cut()
            await self._loop.run_in_executor(None, self._process.wait)
        if not self._stopping:
            self._gone.clear()
            self.start()
