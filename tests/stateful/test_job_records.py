"""Records of jobs compared with the tables: a random mix of everything that moves contents.

Every write of a table is by a job and notes the job in the table's own location, behind those of
the writes that it stands on. So a content shows by itself which jobs it is made of, whatever path
it took to a branch, and after every step the records of each table on each branch are exactly
those.
"""

from __future__ import annotations

from random import Random

import pytest

from lochan.access.policy import Call
from lochan.assembly import open_store
from lochan.base.errors import Conflict, Corrupt, LochanError
from lochan.base.keys import is_record
from lochan.embedded import Embedded, open_repository
from lochan.kernel.job_records import RecordsOnHead
from lochan.kernel.plan import Operation
from lochan.model.commits import ContentKey, Delete, LogEntry, Put, RecordJob
from lochan.model.commits import Operation as Wish
from lochan.model.contents import IcebergTable
from lochan.model.requests import KeyResolution
from lochan.model.specs import parse_spec
from tests.profile import counted
from tests.service.bench import Bench

BRANCHES = ("main", "etl", "other")
TABLES = tuple((f"t{number}",) for number in range(4))
# Two lookups, each of the reference, the commit, the table and the record, in trees of five levels.
READS_MAX = 24
BEHAVIOURS = ("NORMAL", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT")


class Walk:
    """One repository, moved about at random."""

    def __init__(self, catalog: Embedded, seed: int) -> None:
        self.catalog = catalog
        self.random = Random(seed)
        self.jobs = 0
        self.done: dict[str, int] = {}
        first = IcebergTable(
            metadata_location="", snapshot_id=0, schema_id=0, spec_id=0, sort_order_id=0
        )
        catalog.commits.commit("main", "first", [Put(key=TABLES[0], content=first)])
        for name in BRANCHES[1:]:
            catalog.references.create(name, "main")

    def step(self) -> None:
        steps = (self.write, self.write, self.write, self.merge, self.merge, self.pick)
        step = self.random.choice((*steps, self.revert, self.rename, self.drop, self.back))
        try:
            step()
        except Conflict:
            return
        self.done[step.__name__] = self.done.get(step.__name__, 0) + 1

    def branch(self) -> str:
        return self.random.choice(BRANCHES)

    def tables(self, branch: str) -> dict[ContentKey, IcebergTable]:
        page = self.catalog.contents.entries(branch, with_content=True)
        contents = {entry.key: entry.content for entry in page.items}
        return {key: one for key, one in contents.items() if isinstance(one, IcebergTable)}

    def write(self) -> None:
        """Writes a few tables by one job each, on what stands there."""
        branch = self.branch()
        there = self.tables(branch)
        operations: list[Wish] = []
        for key in self.random.sample(TABLES, self.random.randint(1, 2)):
            self.jobs += 1
            before = there.get(key)
            job = f"j{self.jobs:05d}"
            prefix = "" if before is None else f"{before.metadata_location} "
            content = IcebergTable(
                id=None if before is None else before.id,
                metadata_location=f"{prefix}{job}",
                snapshot_id=self.jobs,
                schema_id=0,
                spec_id=0,
                sort_order_id=0,
            )
            operations += [Put(key=key, content=content), RecordJob(key=key, job=job)]
        self.catalog.commits.commit(branch, "write", operations)

    def merge(self) -> None:
        branch, source = self.random.sample(BRANCHES, 2)
        changed = {one.key for one in self.catalog.history.iterate_diff(branch, source)}
        default = self.random.choice(BEHAVIOURS)
        keys = {
            key: KeyResolution(behaviour=self.random.choice(BEHAVIOURS))
            for key in sorted(changed)[:1]
        }
        squash = self.random.random() < 0.6
        try:
            self.catalog.merges.merge(branch, source, default=default, keys=keys, squash=squash)
        except LochanError as error:
            if "were not changed" not in error.message:
                raise

    def pick(self) -> None:
        branch, source = self.random.sample(BRANCHES, 2)
        log = self.catalog.history.log(source, 4).items
        if log:
            hashes = [hash_of(one) for one in reversed(log[: self.random.randint(1, 3)])]
            squash = self.random.random() < 0.5
            self.catalog.merges.cherry_pick(branch, hashes, squash=squash)

    def revert(self) -> None:
        branch = self.branch()
        log = self.catalog.history.log(branch, 3).items
        if log:
            self.catalog.merges.revert(branch, [hash_of(self.random.choice(log))])

    def rename(self) -> None:
        branch = self.branch()
        there = self.tables(branch)
        free = [key for key in TABLES if key not in there]
        if there and free:
            key = self.random.choice(sorted(there))
            moved = Put(key=self.random.choice(free), content=there[key])
            self.catalog.commits.commit(branch, "rename", [Delete(key=key), moved])

    def drop(self) -> None:
        branch = self.branch()
        there = sorted(self.tables(branch))
        if there and self.random.random() < 0.3:
            key = self.random.choice(there)
            self.catalog.commits.commit(branch, "drop", [Delete(key=key)])

    def back(self) -> None:
        branch = self.branch()
        log = self.catalog.history.log(branch, 4).items
        if len(log) > 1:
            onto = f"{branch}@{hash_of(self.random.choice(log[1:]))}"
            self.catalog.references.assign(branch, onto)

    def check(self) -> None:
        """Compares the records of every table with the jobs that its location names."""
        for branch in BRANCHES:
            for key, content in self.tables(branch).items():
                records = [one.job for one in self.catalog.contents.jobs(branch, key).items]
                wanted = sorted(content.metadata_location.split())
                assert records == wanted, (branch, key)


def hash_of(entry: LogEntry) -> str:
    return entry.meta.hash or ""


def walked(seed: int) -> None:
    with open_repository("memory:") as catalog:
        walk = Walk(catalog, seed)
        for _ in range(500):
            walk.step()
            walk.check()
        assert walk.done.keys() >= {"write", "merge", "pick", "revert", "rename", "back"}
        assert not catalog.check(history=True).findings


def walked_all(seeds: range) -> None:
    for seed in seeds:
        walked(seed)


@pytest.mark.parametrize("seed", range(counted(4, 200)))
def test_the_records_of_a_table_are_the_jobs_that_it_is_made_of(seed):
    walked(seed)


def carried_key_by_key(self, changes, state, states, carried):
    """Carries a record wherever the head has what it was before, whatever becomes of its table."""
    records = [one for one in changes if is_record(one.key) and one.left != one.right]
    current = self._head.find([one.key for one in records])
    return [Operation(one.key, one.right) for one in records if current[one.key] == one.left]


def only_added(self, changes, state, states, carried, right=RecordsOnHead.follow):
    """Brings the records of the source and leaves those that only the target has."""
    found = right(self, changes, state, states, carried)
    return [op for op in found if not is_record(op.key) or op.element is not None]


@pytest.mark.parametrize("mutant", [carried_key_by_key, only_added])
def test_records_that_do_not_follow_their_content_are_found(mutant, monkeypatch):
    monkeypatch.setattr(RecordsOnHead, "follow", mutant)
    with pytest.raises((AssertionError, Corrupt)):
        walked_all(range(40))


@pytest.mark.parametrize("commits", [counted(3_000, 1_000_000)])
def test_a_job_is_found_in_bounded_reads_however_long_history_is(commits, tmp_path):
    """Half of the jobs were written on a branch and came by merges, behind second parents."""
    store = open_store(f"rocksdb:{tmp_path / 'store'}")
    bench = Bench(store)
    bench.fill("a", "b")
    bench.branch("etl")
    for number in range(commits // 2):
        for branch, name in (("main", "a"), ("etl", "b")):
            record = RecordJob(key=(name,), job=f"{branch} {number}")
            bench.commit(bench.changed(name, str(number), branch), record, branch=branch)
        if number % 50 == 0 or number == commits // 2 - 1:
            bench.merge("etl")
            bench.merge("main", "etl")
    reader, counts = bench.counted()
    jobs = reader.repository.jobs
    for name, branch in (("a", "main"), ("b", "etl")):
        for number in (0, commits // 4, commits // 2 - 1):
            before = sum(counts.calls.values())
            (found,) = jobs.find(Call(), parse_spec("main"), (name,), [f"{branch} {number}"]).items
            assert found.job == f"{branch} {number}"
            assert not jobs.find(Call(), parse_spec("main"), (name,), [f"{branch} {number}x"]).items
            assert sum(counts.calls.values()) - before <= READS_MAX
    store.close()
