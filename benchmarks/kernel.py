"""Commits through the kernel: one thread on RocksDB, many threads on PostgreSQL, references.

Before any fsync: this measures the kernel and the store's unsynced write. History and keys
are those that the benchmark itself makes.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from threading import Barrier, Thread

from benchmarks.data import Tables
from benchmarks.measure import Effort, OtherCores, emit, settle_heap
from lochan.assembly import open_store
from lochan.base.errors import Bug
from lochan.base.ids import EMPTY_ID, ObjId, content_id_from_uuid_bytes
from lochan.base.names import RefName, ref_name
from lochan.codec.elements import pack_table
from lochan.codec.objects import build_value, encode_object, object_id
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.provenance import UNNAMED, Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Store
from lochan.system import SystemClock, SystemRandom, ThreadLane, ThreadWaiting
from lochan.testing.call_counts import CallCounts
from lochan.testing.postgres import shared_server

PORTS = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
MAIN = ref_name("main")


class Puts:
    """A prepared commit of some puts; preparing it is the client's work and is not measured."""

    incarnation = None

    def __init__(self, keys: Sequence[bytes], pick: Random) -> None:
        operations, objects = [], []
        for key in keys:
            content = pick.randbytes(16)
            raw = encode_object(
                build_value(content_id_from_uuid_bytes(content), 1, pick.randbytes(300))
            )
            obj_id = object_id(raw)
            objects.append((obj_id, raw))
            operations.append(Operation(key, pack_table(1, obj_id, content)))
        hidden = (("operation", (pick.randbytes(16).hex(),)),)
        self._plan = CommitPlan(operations, "benchmark", hidden=hidden, objects=objects)

    def plan(self, head: Head) -> Sequence[CommitPlan]:  # noqa: ARG002 - the same on every head
        return [self._plan]


def run(keys: int, effort: Effort) -> None:
    """Measures commits in a repository that has about so many keys."""
    _one_thread(keys, effort)
    if keys <= 100_000:
        _references(effort)
        _postgres(effort)


def _one_thread(keys: int, effort: Effort) -> None:
    tables, pick = Tables(keys), Random(1)
    with tempfile.TemporaryDirectory() as folder:
        counts = CallCounts()
        store = open_store(f"rocksdb:{folder}/db")
        context = create_repository(store, PORTS, "default")
        publisher = Publisher(context, MAIN)
        for start in range(0, keys, 1_000):
            chosen = tables.sorted_keys(min(1_000, keys - start))
            _published(publisher.publish([Puts(chosen, pick)]))
        calls = _calls(ObservedStore(store, counts, SystemClock()), counts, context, tables, pick)
        context.store = store
        others = [ref_name(f"b{number}") for number in range(63)]
        head = ObjId(_row(context, MAIN))
        ReferenceIndex(context).create_many(
            [NewReferenceRow(name, "BRANCH", head) for name in others], UNNAMED
        )
        publishers = [Publisher(context, name) for name in (MAIN, *others)]
        commits = 3_000 if effort.repeats > 1 else 200
        for puts, branches, chain in ((1, 1, 1), (1, 1, 64), (1, 64, 1), (10, 1, 1), (100, 1, 1)):
            best = min(
                (
                    _round(publishers[:branches], tables, pick, puts, chain, commits // puts)
                    for _ in range(effort.repeats)
                ),
                key=lambda figures: figures["cpu_us"],
            )
            emit(
                "kernel_commit",
                keys=keys,
                puts=puts,
                branches=branches,
                chain=chain,
                **best,
                commits_per_s=1e6 / best["cpu_us"],
                store_calls=calls,
            )
        store.close()


def _round(
    publishers: Sequence[Publisher],
    tables: Tables,
    pick: Random,
    puts: int,
    chain: int,
    commits: int,
) -> dict[str, float]:
    """Publishes commits, so many proposals together; figures are for one commit."""
    chains = [
        [Puts([tables.key() for _ in range(puts)], pick) for _ in range(chain)]
        for _ in range(commits // chain)
    ]
    times = []
    settle_heap()
    others = OtherCores()
    for number, proposals in enumerate(chains):
        publisher = publishers[number % len(publishers)]
        begin = time.thread_time_ns()
        settled = publisher.publish(proposals)
        times.append((time.thread_time_ns() - begin) / chain)
        _published(settled)
    used = others.used()
    times.sort()
    count = len(times)
    return {
        "cpu_us": sum(times) / count / 1e3,
        "median_us": times[count // 2] / 1e3,
        "p99_us": times[count * 99 // 100] / 1e3,
        "worst_ms": times[-1] / 1e6,
        "other_cores": used,
    }


def _calls(
    store: Store, counts: CallCounts, context: RepositoryContext, tables: Tables, pick: Random
) -> float:
    """Store calls of one commit with a warm cache, on average over a hundred."""
    context.store = store
    publisher = Publisher(context, MAIN)
    _published(publisher.publish([Puts([tables.key()], pick)]))
    counts.reset()
    for _ in range(100):
        _published(publisher.publish([Puts([tables.key()], pick)]))
    return sum(counts.calls.values()) / 100


def _references(effort: Effort) -> None:
    bulk, single = (10_000, 500) if effort.repeats > 1 else (500, 20)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        names = ReferenceIndex(create_repository(store, PORTS, "default"))
        rows = [NewReferenceRow(ref_name(f"b{n:06}"), "BRANCH", EMPTY_ID) for n in range(bulk)]
        begin = time.perf_counter()
        names.create_many(rows, Initiator("benchmark"))
        bulk_s = time.perf_counter() - begin
        begin = time.perf_counter()
        for number in range(single):
            names.create_many(
                [NewReferenceRow(ref_name(f"s{number}"), "BRANCH", EMPTY_ID)], UNNAMED
            )
        single_s = time.perf_counter() - begin
        begin = time.perf_counter()
        listed, start = 0, ""
        while page := names.page(start, None, 1_000):
            listed += len(page)
            start = page[-1].name + "\0"
        emit(
            "references",
            bulk=bulk,
            bulk_s=bulk_s,
            single_us=single_s / single * 1e6,
            listed=listed,
            list_ms=(time.perf_counter() - begin) * 1e3,
        )
        store.close()


def _postgres(effort: Effort) -> None:
    server = shared_server()
    if server is None:
        emit("kernel_postgres", skipped="no PostgreSQL was found")
        return
    for threads, branches in ((1, 1), (16, 1), (16, 16), (64, 1), (64, 64)):
        _threads(server.url(), threads, branches, effort)


def _threads(url: str, threads: int, branches: int, effort: Effort) -> None:
    seconds = 2.0 if effort.repeats > 1 else 0.3
    store = open_store(url)
    counts = CallCounts()
    context = create_repository(
        ObservedStore(store, counts, SystemClock()), PORTS, f"r{threads}b{branches}"
    )
    names = [MAIN, *(ref_name(f"b{n}") for n in range(1, branches))]
    if branches > 1:
        ReferenceIndex(context).create_many(
            [NewReferenceRow(n, "BRANCH", EMPTY_ID) for n in names[1:]], UNNAMED
        )
    lanes = [ThreadLane(Publisher(context, name)) for name in names]
    done: Counter[int] = Counter()
    times: list[float] = []
    start = Barrier(threads + 1)
    end = [0.0]
    workers = [
        Thread(target=_commit_on, args=(lanes[n % branches], n, start, end, done, times))
        for n in range(threads)
    ]
    for worker in workers:
        worker.start()
    counts.reset()
    end[0] = time.perf_counter() + seconds
    start.wait()
    for worker in workers:
        worker.join()
    times.sort()
    total = sum(done.values())
    emit(
        "kernel_postgres",
        threads=threads,
        branches=branches,
        commits_per_s=total / seconds,
        commits_per_swap=total / max(1, counts.calls["apply"]),
        p50_ms=times[len(times) // 2] * 1e3,
        p99_ms=times[len(times) * 99 // 100] * 1e3,
    )
    store.close()


def _commit_on(
    lane: ThreadLane,
    number: int,
    start: Barrier,
    end: list[float],
    done: Counter[int],
    times: list[float],
) -> None:
    tables, pick = Tables(number), Random(number)
    start.wait()
    while (begin := time.perf_counter()) < end[0]:
        lane.commit(Puts([tables.key()], pick))
        times.append(time.perf_counter() - begin)
        done[number] += 1


def _published(settled: Sequence[object]) -> None:
    for one in settled:
        if not isinstance(one, Published):
            raise Bug(f"a commit of the benchmark was refused: {one}")


def _row(context: RepositoryContext, name: RefName) -> bytes:
    found = context.references.fetch(name)
    if found is None:
        raise Bug("the branch is gone")
    return found.row.pointer
