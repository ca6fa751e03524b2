"""The cost of deep history: commits by decile, ancestors, merge bases.

`--keys N` is the number of commits here. A million of them need about 8 GB of disk and two minutes.
"""

from __future__ import annotations

import tempfile
import time
from random import Random

from benchmarks.data import Tables
from benchmarks.kernel import MAIN, PORTS, Puts
from benchmarks.measure import Effort, OtherCores, emit, per_call_us
from lochan.assembly import open_store
from lochan.base.errors import Bug
from lochan.base.ids import ObjId
from lochan.base.names import RefName, ref_name
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ancestor_at, is_ancestor, merge_base
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Choices
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import create_repository, open_repository
from lochan.kernel.views import CommitView

SIDE = ref_name("side")


def run(commits: int, effort: Effort) -> None:
    """Measures a history of so many commits over 5,000 tables."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        context = create_repository(store, PORTS, "default")
        _deciles(context, commits)
        cold = open_repository(store, PORTS, "default")
        _ancestors(cold, commits)
        store.close()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        _merges(create_repository(store, PORTS, "default"), 1_000 if effort.repeats > 1 else 20)
        store.close()


def _deciles(context: RepositoryContext, commits: int) -> None:
    tables, pick = Tables(1), Random(1)
    keys = tables.sorted_keys(5_000)
    publisher = Publisher(context, MAIN)
    for start in range(0, len(keys), 500):
        publisher.publish([Puts(keys[start : start + 500], pick)])
    deciles = []
    others = OtherCores()
    for _ in range(10):
        spent_ns = 0
        for _ in range(commits // 10):
            proposal = Puts([pick.choice(keys)], pick)
            begin = time.thread_time_ns()
            publisher.publish([proposal])
            spent_ns += time.thread_time_ns() - begin
        deciles.append(round(spent_ns / (commits // 10) / 1e3, 1))
    emit(
        "history_growth",
        commits=commits,
        decile_us=deciles,
        last_over_first=deciles[-1] / deciles[0],
        other_cores=others.used(),
    )


def _ancestors(context: RepositoryContext, commits: int) -> None:
    head = _head(context, MAIN)
    context.views.reads = 0
    first = ancestor_at(context.views, head, head.sequence - commits)
    emit("ancestor", distance=commits, reads=context.views.reads)
    if not is_ancestor(context.views, context.views.load(first), head):
        raise Bug("an ancestor is one")
    ReferenceIndex(context).create_many([NewReferenceRow(SIDE, "BRANCH", first)], UNNAMED)
    tables, pick = Tables(2), Random(2)
    Publisher(context, SIDE).publish([Puts([tables.key()], pick)])
    cold = open_repository(context.store, PORTS, "default")
    left, right = _head(cold, MAIN), _head(cold, SIDE)
    cold.views.reads = 0
    begin = time.thread_time()
    base = merge_base(cold.views, left, right)
    spent = time.thread_time() - begin
    if base is None or base.obj_id != first:
        raise Bug("the base is where the branches parted")
    emit("merge_base_straight", distance=commits, reads=cold.views.reads, ms=spent * 1e3)


def _merges(context: RepositoryContext, count: int) -> None:
    tables, pick = Tables(3), Random(3)
    main, side = Publisher(context, MAIN), Publisher(context, SIDE)
    main.publish([Puts([tables.key()], pick)])
    ReferenceIndex(context).create_many(
        [NewReferenceRow(SIDE, "BRANCH", _head(context, MAIN).obj_id)], UNNAMED
    )
    parted = _head(context, SIDE)
    begin = time.perf_counter()
    for _ in range(count):
        side.publish([Puts([tables.key()], pick)])
        (merged,) = main.publish([MergeProposal(context, _head(context, SIDE), "merge", Choices())])
        if not isinstance(merged, Published) or not merged.commits:
            raise Bug(f"a merge of the benchmark did nothing: {merged}")
    merges_s = time.perf_counter() - begin
    side.publish([Puts([tables.key()], pick)])
    left, right = _head(context, MAIN), _head(context, SIDE)
    latest_us = per_call_us(lambda: merge_base(context.views, left, right), 20)
    worst_us = per_call_us(lambda: merge_base(context.views, left, parted), 3)
    cold = open_repository(context.store, PORTS, "default")
    source = _head(cold, SIDE)
    publisher = Publisher(cold, MAIN)
    publisher.publish([MergeProposal(cold, source, "merge", Choices())])
    cold.views.reads = 0
    publisher.publish([MergeProposal(cold, source, "again", Choices())])
    emit(
        "merge_base_merges",
        merges=count,
        merge_us=merges_s / count * 1e6,
        latest_us=latest_us,
        across_all_ms=worst_us / 1e3,
        nothing_to_do_reads=cold.views.reads,
    )


def _head(context: RepositoryContext, name: RefName) -> CommitView:
    found = context.references.fetch(name)
    if found is None:
        raise Bug(f"there is no branch {name}")
    return context.views.load(ObjId(found.row.pointer))
