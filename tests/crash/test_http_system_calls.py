"""Before the server acknowledges a commit, the log that holds it is synchronised to the disk.

Seen from outside: strace watches what the server writes to its log and to its sockets, and when
each synchronisation of the log begins and ends.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from signal import SIGTERM

import pytest

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, drive, run
from benchmarks.http_load.processes import lochan_command, start, tail
from benchmarks.http_load.world import World, commit_body, hash_after_commit, put
from tests.crash.trace import Call, find_broken_promise, read_trace

FAULTY = "tests.crash.faulty_server"
TRACED = "trace=write,pwrite64,writev,pwritev,sendto,sendmsg,fsync,fdatasync"
CLIENTS = 8
COMMITS = 10


class Marked(Client):
    """Commits with messages that can be found in the log; remembers the hash in each answer."""

    def __init__(self, world: World, branch: tuple[str, str], who: int) -> None:
        self._world = world
        self._name, self._at = branch
        self._who = who
        self._number = 0
        self.hashes: dict[str, str] = {}

    def _message(self) -> str:
        return f"marked-{self._who:02}-{self._number:03}-message"

    def request(self) -> bytes | None:
        if self._number == COMMITS:
            return None
        self._number += 1
        body = commit_body([put(("ns", f"t{self._who}-{self._number}"), 1)])
        body = body.replace(b"measured", self._message().encode(), 1)
        path = f"/trees/{self._name}@{self._at}/history/commit"
        return self._world.requests.post(path, body)

    def settle(self, status: int, body: bytes) -> None:
        assert status == 200, body
        self._at = self.hashes[self._message()] = hash_after_commit(body)


async def commit_some(address: str, clients: int) -> dict[str, str]:
    """Returns the hashes of acknowledged commits by their message."""
    requests = Requests(address)
    world = World(requests, "traced")
    branch = await world.branch("traced")
    marked = [Marked(world, branch, who) for who in range(clients)]
    await drive(requests, marked, seconds=120)
    world.caller.close()
    return {message: hashes for one in marked for message, hashes in one.hashes.items()}


def watch(folder: Path, fault: str, clients: int) -> tuple[list[Call], dict[str, str]]:
    """Runs a server under strace; returns its system calls and what it acknowledged."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace to watch system calls; install the package strace")
    output = folder / "trace"
    serve = lochan_command(f"rocksdb:{folder / 'store'}")
    if fault:
        serve = [sys.executable, "-m", FAULTY, fault, *serve[serve.index("serve") :]]
    command = [strace, "-f", "-y", "-s", "100000", "-e", TRACED, "-o", str(output), *serve]
    try:
        served = start("lochan", command, folder)
    except RuntimeError:
        if "ptrace" in tail(folder / "lochan.log").lower():
            pytest.skip("strace may not trace here; allow ptrace (in a container: SYS_PTRACE)")
        raise
    children = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split()
    try:
        hashes = run(lambda: commit_some(served.address, clients))
    finally:
        # strace itself is deaf to signals; it ends when what it watches has ended.
        for child in children:
            os.kill(int(child), SIGTERM)
        served.process.wait()
    return read_trace(output.read_text(errors="replace").splitlines()), hashes


@pytest.mark.parametrize("clients", [1, CLIENTS])
def test_the_log_is_synchronised_before_each_acknowledgement(tmp_path, clients, record_property):
    calls, hashes = watch(tmp_path, "", clients)
    assert len(hashes) == clients * COMMITS
    broken = {
        message: find_broken_promise(calls, message, hash_) for message, hash_ in hashes.items()
    }
    assert {message: why for message, why in broken.items() if why} == {}
    syncs = sum(call.name == "fdatasync" for call in calls)
    record_property("told", f"{len(hashes)} commits of {clients} clients: {syncs} fdatasync calls")


def test_a_server_whose_flush_does_nothing_is_noticed(tmp_path):
    calls, hashes = watch(tmp_path, "no_op_flush", 1)
    broken = [find_broken_promise(calls, message, hash_) for message, hash_ in hashes.items()]
    assert len(hashes) == COMMITS
    assert all(why is not None and "not synchronised" in why for why in broken), broken
