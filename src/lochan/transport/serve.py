"""Runs a server until a signal stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from lochan.transport.event_loop import allow_many_connections, new_loop, quieten_collector
from lochan.transport.server import Server

MakeServer = Callable[[], Server]


def run_until_stopped(make: MakeServer, ready: Callable[[str], None]) -> None:
    """Makes a server on a fresh loop, serves, and returns after SIGTERM or SIGINT.

    A second signal cuts what is still under way. SIGHUP reads certificates again and reopens the
    audit log; without any of them it ends the process, as is usual when a terminal is closed.
    """
    allow_many_connections()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(make, ready))


async def _serve(make: MakeServer, ready: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    server = make()
    stop_requested = asyncio.Event()

    def on_signal() -> None:
        if stop_requested.is_set():
            server.cut()
        stop_requested.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    if server.can_reload:
        loop.add_signal_handler(signal.SIGHUP, server.reload)
    address = await server.start()
    try:
        quieten_collector()
        ready(address)
        await stop_requested.wait()
    finally:
        await server.stop()
