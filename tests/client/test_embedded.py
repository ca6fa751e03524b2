"""A repository without a server: threads, durability, and one owner at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lochan import open_repository
from lochan.access.policy import Call
from lochan.base.errors import InvalidUrl, KeysConflict, StoreClosed, StoreLocked
from lochan.embedded import Embedded
from lochan.embedded.lane_runner import LaneRunner
from lochan.kernel.repository import Ports
from lochan.kv.observe import ObservedCall, ObservedStore
from lochan.model.commits import Put
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from tests.client.test_contract import ORDERS, messages, put, table
from tests.client.test_lost_replies import WRITES


def test_threads_commit_to_one_branch_and_every_commit_is_made_once():
    with open_repository("memory:") as repository:

        def commit(number: int) -> None:
            operations = [Put(key=(f"t{number}",), content=table(number))]
            repository.commits.commit("main", f"commit {number}", operations)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(commit, range(80)))
        assert sorted(messages(repository, "main")) == sorted(f"commit {n}" for n in range(80))


def test_long_commits_and_merges_beside_small_commits_lose_nothing(tmp_path):
    with open_repository(f"rocksdb:{tmp_path / 'store'}") as repository:
        put(repository, "main", ORDERS, 0)
        repository.references.create("side", source="main")

        def commit(number: int) -> None:
            width = 400 if number % 5 == 0 else 1
            keys = [(f"t{number}x{at}",) for at in range(width)]
            operations = [Put(key=key, content=table(number)) for key in keys]
            branch = "side" if number % 10 == 0 else "main"
            repository.commits.commit(branch, f"commit {number}", operations)
            if branch == "side":
                repository.merges.merge("main", "side", message=f"merge {number}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(commit, range(40)))
        repository.merges.merge("main", "side")
        names: list[str] = []
        token = None
        while not names or token is not None:
            page = repository.contents.entries("main", token=token)
            names += [entry.key[0] for entry in page.items]
            token = page.token
        found = set(names)
        assert len([name for name in found if name.startswith("t")]) == 8 * 400 + 32


def test_threads_on_one_key_lose_or_win_and_nothing_is_lost():
    with open_repository("memory:") as repository:
        put(repository, "main", ORDERS, 0)

        def change(number: int) -> bool:
            try:
                put(repository, "main", ORDERS, number)
            except KeysConflict:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = sum(pool.map(change, range(1, 41)))
        assert won >= 1
        assert len(messages(repository, "main")) == won + 1


def test_what_was_committed_is_there_when_the_store_is_opened_again(tmp_path):
    address = f"rocksdb:{tmp_path / 'store'}"
    with open_repository(address) as repository:
        head = put(repository, "main", ORDERS, 1)
    with open_repository(address) as repository:
        assert repository.references.get().hash == head
        assert not repository.check().damaged
    with open_repository(address, "another") as repository:
        assert messages(repository, "main") == []


@pytest.mark.slow
def test_a_process_that_dies_without_closing_loses_no_acknowledged_commit(tmp_path: Path):
    program = """
import os, sys
from lochan import open_repository
from tests.client.test_contract import put
repository = open_repository(sys.argv[1])
for number in range(5):
    print(put(repository, "main", ("t",), number), flush=True)
os._exit(9)
"""
    address = f"rocksdb:{tmp_path / 'store'}"
    process = subprocess.run(
        [sys.executable, "-c", program, address],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 9, process.stderr
    with open_repository(address) as repository:
        hashes = [entry.meta.hash for entry in repository.history.iterate("main")]
    assert hashes[::-1] == process.stdout.split()


class Calls:
    """Which calls a store gets."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def observe(self, call: ObservedCall) -> None:
        self.names.append(call.operation)


@pytest.fixture
def watched() -> tuple[Any, Calls]:
    calls = Calls()
    clock = SystemClock()
    store = ObservedStore(MemoryStore(), calls, clock)
    opened = Repositories(store, Ports(clock, SystemRandom(), ThreadWaiting()))
    repository = Embedded(store, opened.open_or_create(Call(), "default"))
    put(repository, "main", ORDERS, 1)
    repository.references.create("old")
    put(repository, "main", ORDERS, 2)
    repository.references.create("dev")
    put(repository, "dev", ("items",), 1)
    repository.namespaces.create("main", ("space",))
    return repository, calls


@pytest.mark.parametrize("name", WRITES)
def test_every_write_is_flushed_before_it_returns(watched, name):
    repository, calls = watched
    calls.names.clear()
    WRITES[name](repository, repository)
    writes = [at for at, one in enumerate(calls.names) if one not in READS]
    flushes = [at for at, one in enumerate(calls.names) if one == "flush"]
    assert writes[0] < flushes[-1]
    assert set(calls.names[flushes[-1] :]) <= READS | {"flush"}


READS = {"get", "get_many", "scan", "epoch"}


def test_a_store_belongs_to_one_process_at_a_time(tmp_path):
    address = f"rocksdb:{tmp_path / 'store'}"
    with open_repository(address), pytest.raises(StoreLocked):
        open_repository(address)
    with open_repository(address) as repository:
        assert repository.config().default_branch == "main"


def test_after_closing_nothing_works_and_nothing_is_harmed(tmp_path):
    address = f"rocksdb:{tmp_path / 'store'}"
    repository = open_repository(address)
    put(repository, "main", ORDERS, 1)
    repository.close()
    with pytest.raises(StoreClosed):
        put(repository, "main", ORDERS, 2)
    with open_repository(address) as again:
        assert len(messages(again, "main")) == 1


def test_who_works_is_written_into_commits_and_ref_logs():
    with open_repository("memory:", who="ada") as repository:
        put(repository, "main", ORDERS, 1)
        assert repository.history.log("main").items[0].meta.committer == "ada"
        assert repository.references.log("main").items[0].who == "ada"


def test_an_address_without_a_server_is_refused():
    with pytest.raises(InvalidUrl):
        open_repository("nothing:")


def test_more_branches_than_lanes_are_kept_all_work(monkeypatch):
    monkeypatch.setattr("lochan.embedded.lane_runner.LANES_MAX", 3)
    with open_repository("memory:") as repository:
        names = [f"b{number}" for number in range(8)]
        for name in names:
            repository.references.create(name)
        for name in names * 2:
            put(repository, name, ORDERS, len(messages(repository, name)) + 1)
        assert [len(messages(repository, name)) for name in names] == [2] * 8
        doing = repository.commits.runner
        assert isinstance(doing, LaneRunner)
        assert len(doing._lanes) == 3
