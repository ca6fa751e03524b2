"""Runs a server until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from lochan.base.errors import Unavailable
from lochan.http.event_loop import allow_many_connections, new_loop, quieten_collector
from lochan.http.server import Server

MakeServer = Callable[[], Server]


def run_until_stopped(make: MakeServer, ready: Callable[[str], None]) -> None:
    """Makes a server on a fresh loop, serves, and returns after SIGTERM or SIGINT.

    A second signal cuts what is still under way.
    """
    allow_many_connections()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(make, ready))


async def _serve(make: MakeServer, ready: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    server = make()
    told = asyncio.Event()

    def tell() -> None:
        if told.is_set():
            server.cut()
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    address = await server.start()
    try:
        quieten_collector()
        ready(address)
        failing = asyncio.create_task(server.failed.wait())
        stopping = asyncio.create_task(told.wait())
        await asyncio.wait((failing, stopping), return_when=asyncio.FIRST_COMPLETED)
        failing.cancel()
        stopping.cancel()
        if server.failed.is_set():
            raise Unavailable("the process that reads HTTP ended again and again; see the log")
    finally:
        await server.stop()
