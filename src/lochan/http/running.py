"""Runs a server until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable

from lochan.base.limits import FILES_MAX, GC_THRESHOLDS
from lochan.http.server import Server

MakeServer = Callable[[], Server]


def run_until_stopped(make: MakeServer, ready: Callable[[str], None]) -> None:
    """Makes a server on a fresh loop, serves, and returns after SIGTERM or SIGINT.

    A second signal cuts what is still under way.
    """
    _allow_many_connections()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(make, ready))


async def _serve(make: MakeServer, ready: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    server = make()
    told = asyncio.Event()

    def tell() -> None:
        if told.is_set():
            server.listening.cut()
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    address = await server.start()
    try:
        # What was loaded so far stays for ever; the collector need not look at it again. Rounds
        # are made rare: what a server decodes are plain structs, which leave little to find.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        ready(address)
        await told.wait()
    finally:
        await server.stop()


def _allow_many_connections() -> None:
    """Takes as many file descriptors as this process may have; shells give few by default."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
