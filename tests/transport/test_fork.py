"""A process that is forked from a server keeps none of its sockets open."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from lochan.stores.memory.store import MemoryStore
from lochan.testing.forks import ForkedChild
from tests.transport.world import Client, running

pytestmark = pytest.mark.slow


def sockets() -> set[str]:
    """Returns which sockets this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {each for each in found if each.startswith("socket:")}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_forked_process_serves_nobody_and_keeps_no_socket_of_the_server():
    with running(MemoryStore()) as server, Client(server) as client:
        assert client.ask("GET", "/t/echo/x").status == 200
        asking = f"socket:[{os.fstat(client.socket.fileno()).st_ino}]"
        before = sockets() - {asking}
        served = server.server
        (connection,) = served.registry.connections
        descriptors = (served.listeners[0].descriptor, connection.descriptor())
        owned = {f"socket:[{os.fstat(each.number).st_ino}]" for each in descriptors if each}
        assert len(owned) == 2
        assert owned <= before
        kept = ForkedChild(lambda: sorted(sockets())).result()
        assert owned & set(kept) == set()
        assert client.ask("GET", "/t/echo/x").status == 200
        with Client(server) as other:
            assert other.ask("GET", "/t/echo/x").status == 200
