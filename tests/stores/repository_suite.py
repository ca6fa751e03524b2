"""Kernel, staging and faults on one store: suites that the test class of a store inherits.

It needs the fixture `store`, and `url` of the same store. Holds no test that is run by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from lochan.base.errors import Unavailable, Unknown
from lochan.base.ids import ObjId
from lochan.embedded import open_repository
from lochan.kernel.publish import Publisher
from lochan.kv.store import Store
from lochan.stores.memory.store import MemoryStore
from lochan.testing.contracts.concurrency import together
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import wants
from tests.profile import counted
from tests.staging.workbench import MAIN, SIDE, StagingBench
from tests.stateful.file_walk import FileWalk
from tests.stateful.test_history_walks import walks
from tests.stores.postgres.kernel_bench import connect, create, publish, tally

THREADS = 4
_FAULTS = (FaultKind.NOT_APPLIED, FaultKind.LOST_REPLY, FaultKind.LATE)


class SomeFaults:
    """A plan that lets one call of five fail."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.happened = 0

    def decide(self, call: PlannedCall) -> Fault:
        kinds = [kind for kind in _FAULTS if kind in call.possible]
        if not kinds or self._random.random() > 0.2:
            return Fault(FaultKind.OK)
        self.happened += 1
        return Fault(self._random.choice(kinds), 2)


def history(store: Store) -> list[bytes]:
    """Makes a history of tables, files and branches with a fixed seed; returns all ids of it."""
    bench = StagingBench(store, seed=11)
    for number in range(40):
        bench.commit(wants(number))
        bench.clock.advance_us(1_000)
    bench.branch(SIDE)
    for number in range(150):
        bench.put(f"folder/{number % 60}", f"content {number}", SIDE)
    bench.commit_files("files", SIDE)
    bench.delete("folder/3", SIDE)
    bench.commit_files("fewer", SIDE)
    return [view.obj_id for name in (MAIN, SIDE) for view in bench.log(name)]


class RepositorySuite:
    """What the kernel and staged files promise, on this store."""

    def test_the_same_history_has_the_same_ids_as_in_memory(self, store: Store) -> None:
        assert history(store) == history(MemoryStore())

    def test_random_histories_agree_with_the_model(self, url: str, tmp_path: Path) -> None:
        names = count()

        @contextmanager
        def opened() -> Iterator[list[Any]]:
            # Every walk has a repository of its own in the same store.
            with open_repository(url, f"walk-{next(names)}", data=tmp_path) as repository:
                yield [repository]

        walks(opened, 7_000, counted(120, 2_000))

    def test_random_mixes_of_files_and_tables_agree_with_the_model(
        self, url: str, tmp_path: Path
    ) -> None:
        with open_repository(url, data=tmp_path) as repository:
            walk = FileWalk(repository, 7)
            for _ in range(counted(25, 1_000)):
                walk.step()
            assert not repository.check(history=True).findings

    def test_publishes_through_faults_take_effect_once(self, store: Store) -> None:
        create(store)
        plan = SomeFaults(3)
        faulty = FaultyStore(store, plan)
        publisher = Publisher(connect(store), MAIN)
        sent: set[str] = set()
        acknowledged: dict[str, ObjId] = {}
        for number in range(counted(30, 1_000)):
            if not number % 10:
                publisher = Publisher(_connected(faulty), MAIN)
            name = f"op {number:05}"
            sent.add(name)
            try:
                acknowledged |= publish(publisher, [name])
            except (Unavailable, Unknown):
                continue
        faulty.settle()
        assert plan.happened
        found = tally(store, acknowledged, sent)
        assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
        assert found.acknowledged > len(sent) // 2

    def test_publishers_beside_each_other_lose_nothing(self, store: Store) -> None:
        create(store)
        acknowledged: dict[str, ObjId] = {}
        each = counted(8, 200)

        def work(number: int) -> None:
            publisher = Publisher(connect(store), MAIN)
            for turn in range(each):
                acknowledged.update(publish(publisher, [f"op {number} {turn}"]))

        together(THREADS, work)
        found = tally(store, acknowledged, set(acknowledged))
        assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
        assert found.acknowledged == THREADS * each

    def test_files_staged_through_faults_are_committed_whole(self, store: Store) -> None:
        bench = StagingBench(store)
        faulty = FaultyStore(store, SomeFaults(5))
        expected = {}
        for number in range(counted(30, 500)):
            path = f"f/{number % 17}"
            done = False
            while not done:
                try:
                    bench.other(faulty, seed=number + 2).put(path, f"v{number}")
                    done = True
                except (Unavailable, Unknown):
                    faulty.settle()
            expected[path] = f"v{number}"
        faulty.settle()
        bench.other(seed=9_999).commit_files()
        assert bench.files() == expected


def _connected(store: FaultyStore) -> Any:
    while True:
        try:
            return connect(store)
        except (Unavailable, Unknown):
            store.settle()
