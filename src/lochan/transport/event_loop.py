"""The event loop, and what a process that serves many clients sets up around it."""

from __future__ import annotations

import asyncio
import gc

from lochan.base.limits.server import FILES_MAX, GC_THRESHOLDS


def allow_many_connections() -> None:
    """Takes as many file descriptors as this process may have; shells give few by default."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def quieten_collector() -> None:
    """Makes rounds of the garbage collector rare, and short.

    What was loaded so far stays for ever, so it need not be looked at again; what a server decodes
    are plain structs, which leave little to find.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def new_loop() -> asyncio.AbstractEventLoop:
    """Returns the fastest loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
