"""The front: a process of its own that reads and writes HTTP, for the server behind it.

An interpreter uses one core. With the front, parsing, checking and writing use another, and the
server that owns the store gets requests that are whole and clean, dozens at a time.

The front lives as long as the pair of sockets that joins it to its server: 1. it starts, with the
listening socket that its server has bound; 2. told to begin, it listens; 3. told to end, it accepts
nobody new, lets what is under way be answered, and ends; 4. when its server is gone, it cuts all
connections and ends at once. It keeps nothing: who was cut has no answer, and may ask.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import msgspec

from lochan.base.limits import LISTEN_BACKLOG
from lochan.http.connection import Connection
from lochan.http.event_loop import allow_many_connections, new_loop, quieten_collector
from lochan.http.forwarding import Forwarding
from lochan.http.frames import Answer, Begin, Count, Joint, decode_to_front
from lochan.http.hygiene import Hosts
from lochan.http.listener import Listener, Timeouts


class FrontSpec(msgspec.Struct, frozen=True):
    """What the front is told when it is started: two open sockets, names and times."""

    listening_fd: int
    server_fd: int
    names: tuple[str, ...]
    timeouts: Timeouts


class Front:
    """Clients on one side, the server on the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spec: FrontSpec) -> None:
        self._loop = loop
        self._spec = spec
        self._told = 0
        self._begun_answer: Answer | None = None
        self._task: asyncio.Task[None] | None = None
        self._accepting: asyncio.Server | None = None
        self.gone = asyncio.Event()
        joined = socket.socket(fileno=spec.server_fd)
        self._joint = Joint(loop, joined, self._received, self._lost)
        self._forwarding = Forwarding(self._joint)
        hosts = Hosts(frozenset(name.encode() for name in spec.names))
        self._listening = Listener(loop, self._forwarding, hosts, spec.timeouts)
        self._count()

    def _received(self, frame: memoryview) -> None:
        if self._begun_answer is not None:
            answer, self._begun_answer = self._begun_answer, None
            self._forwarding.answered(answer, bytes(frame))
            return
        message = decode_to_front(frame)
        if isinstance(message, Answer):
            if message.body_follows:
                self._begun_answer = message
            else:
                self._forwarding.answered(message, message.body)
        elif isinstance(message, Begin):
            self._task = self._loop.create_task(self._begin())
        else:
            self._task = self._loop.create_task(self._end(message.drain_s))

    def _lost(self) -> None:
        self._listening.cut()
        self.gone.set()

    async def _begin(self) -> None:
        listener = socket.socket(fileno=self._spec.listening_fd)
        self._accepting = await self._loop.create_server(
            lambda: Connection(self._listening), sock=listener, backlog=LISTEN_BACKLOG
        )

    async def _end(self, drain_s: float) -> None:
        if self._accepting is not None:
            self._accepting.close()
        await self._listening.drain(drain_s)
        self._joint.close()
        self.gone.set()

    def _count(self) -> None:
        connections = len(self._listening.connections)
        if connections != self._told:
            self._told = connections
            self._joint.put(Count(connections))
        self._loop.call_later(self._spec.timeouts.tick_s, self._count)


async def _run(spec: FrontSpec) -> None:
    front = Front(asyncio.get_running_loop(), spec)
    quieten_collector()
    await front.gone.wait()


def main(text: str) -> None:
    """Runs a front until its server is gone or has told it to end."""
    spec = msgspec.json.decode(text, type=FrontSpec)
    allow_many_connections()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run(spec))
    # Nothing is kept here, so nothing needs to be put away.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
