"""A server dies at every store call of every operation; the next server can go on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lochan.base.limits.commits import MOVES_MAX
from lochan.base.names import ref_name
from lochan.kernel.publish import Publisher
from lochan.kv.store import Store
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.store import RocksStore
from lochan.testing.sim import NO_FAULTS, Server, crash_sweep
from tests.profile import counted
from tests.sim.kernel_scenarios import (
    CHECKS,
    MAIN,
    NAMES,
    SIDE,
    Write,
    assigns,
    claims,
    claims_are_done_once,
    commits,
    creates,
    deletes,
    in_turn,
    merges,
    publish,
    scenario,
)

OTHER = ref_name("two")

# Of the crashes on RocksDB. It shares no divisor with the number of follow-ups, so all are met.
ONE_IN = counted(9, 1)


def commits_many(server: Server) -> None:
    """Enough in one commit to spill the embedded index."""
    keys = [f"key{number:03}" for number in range(60)]
    publisher = Publisher(server.app.context, MAIN)
    server.attempt("commit", publish, publisher, [Write("many", keys)])
    server.attempt("commit", publish, publisher, [Write("more", ["one more"])])


def deletes_side(server: Server) -> None:
    deletes(SIDE)(server)


OPERATIONS: dict[str, Callable[[Server], None]] = {
    "two commits": commits("c", 2),
    "a commit that spills": commits_many,
    "create": creates(NAMES[2]),
    "create two": creates(NAMES[2], NAMES[3]),
    "create, delete, create": in_turn(creates(NAMES[2]), deletes(NAMES[2]), creates(NAMES[2])),
    "delete": deletes_side,
    "assign": assigns(MAIN),
    "moves that leave the row": in_turn(*[assigns(SIDE)] * MOVES_MAX),
    "merge": merges,
    "a claimed commit": claims("k", 1),
}

FOLLOW_UPS: dict[str, Callable[[Server], None]] = {
    "get": lambda server: server.attempt("find", server.app.names.find, NAMES[2]),
    "list": lambda server: server.attempt("page", server.app.names.page, "", None, 10),
    "create same": creates(NAMES[2]),
    "create other": creates(OTHER),
    "delete same": deletes(NAMES[2]),
    "delete other": deletes(SIDE),
    "commit": commits("after", 1),
    "the same claim": claims("k", 1),
}


class Directories:
    """RocksDB stores that are opened again after a crash, as after a kill."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(dir=_memory_folder())
        self._open: list[RocksStore] = []
        self._count = 0

    def new(self) -> Store:
        self._count += 1
        self._shut()
        return self._opened(Path(self._folder) / str(self._count))

    def again(self, store: Store) -> Store:
        """Opens the same directory anew."""
        (path,) = Path(self._folder).iterdir()
        store.close()
        self._open.clear()
        return self._opened(path)

    def _opened(self, path: Path) -> RocksStore:
        store = RocksStore(path, Parameters())
        self._open.append(store)
        return store

    def _shut(self) -> None:
        for store in self._open:
            store.close()
        self._open.clear()
        for old in Path(self._folder).iterdir():
            shutil.rmtree(old)

    def close(self) -> None:
        self._shut()
        shutil.rmtree(self._folder)


def _memory_folder() -> str | None:
    """A folder in memory if there is one: these tests are not about the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def sweep(*, one_in: int = 1, **more: Any) -> int:
    reached = 0
    checks = {**CHECKS, "claims": claims_are_done_once}
    for name, act in OPERATIONS.items():
        report = crash_sweep(
            scenario(name, {"s1": [act]}, faults=NO_FAULTS, checks=checks, **more),
            FOLLOW_UPS,
            one_in=one_in,
        )
        print(report.line())
        reached += report.reached
    return reached


def test_a_crash_at_any_call_leaves_a_repository_that_anyone_can_go_on_with(record_property):
    reached = sweep() + sweep(atomic_apply=False)
    record_property("counted", f"crash sweep on memory: {reached} crashes reached")
    assert reached >= 2_000


@pytest.mark.slow
def test_the_same_on_rocksdb(record_property):
    directories = Directories()
    try:
        where = {"store": directories.new, "reopen": directories.again}
        reached = sweep(one_in=ONE_IN, **where)
        reached += sweep(one_in=ONE_IN, atomic_apply=False, **where)
    finally:
        directories.close()
    record_property("counted", f"crash sweep on RocksDB: {reached} crashes reached")
    assert reached >= 2_000 / ONE_IN
