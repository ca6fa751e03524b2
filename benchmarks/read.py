"""Reading and changing a tree on RocksDB: lookup, page, scan, difference, edit."""

from __future__ import annotations

import tempfile
from random import Random

from benchmarks.branch import TABLES, Branch, MeasuredNodes
from benchmarks.data import Tables
from benchmarks.measure import Effort, best_cpu_s, emit, peak_heap_bytes, per_call_us
from lochan.assembly import open_store
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.node import Change, NewNode
from lochan.index.read import find_many, find_one, iterate, read_page
from lochan.persist.cache import Caches

# Section 6 of the prototype study, leaves of 4 KB: lookup all cached, leaf from RocksDB, nothing
# cached (us); page of 250 from RocksDB and from memory (us), nodes read; scan (keys per second);
# difference of 10 (nodes, ms).
PROTOTYPE = {
    100_000: {
        "lookup": (2.9, 6, 13),
        "page": (96, 59, 8.2),
        "scan": 5.1e6,
        "difference": (52, 0.77),
    },
    1_000_000: {
        "lookup": (4.6, 11, 18),
        "page": (128, 62, 9.1),
        "scan": 3.6e6,
        "difference": (62, 0.94),
    },
}
_CACHE_BYTES = 64 * 1024 * 1024


def run(size: int, effort: Effort) -> None:
    tables = Tables(size)
    items = tables.sorted_items(size)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"rocksdb:{folder}/db")
        branch = Branch(store)
        branch.load(items)
        keys = [key for key, _ in items]
        del items
        _lookup(branch, keys, effort)
        _page(branch, keys, effort)
        _scan(branch, keys, effort)
        chosen = sorted(Random(6).sample(keys, 10))
        _edit_and_difference(branch, size, [(key, tables.element()) for key in chosen], effort)
        store.close()


def _prototype(size: int, name: str) -> object:
    return PROTOTYPE.get(size, {}).get(name)


def _cold(branch: Branch) -> MeasuredNodes:
    return MeasuredNodes(branch.objects, Caches(_CACHE_BYTES))


def _lookup(branch: Branch, keys: list[bytes], effort: Effort) -> None:
    root = branch.index.root
    pick = Random(3)
    chosen = [pick.choice(keys) for _ in range(500)]
    many = sorted(set(chosen[:100]))
    nodes = _cold(branch)
    for key in chosen:
        find_one(nodes, root, key)
    cached = best_cpu_s(lambda: [find_one(nodes, root, key) for key in chosen], effort.repeats)

    def leaves_from_store() -> None:
        nodes.forget_leaves()
        for key in chosen:
            find_one(nodes, root, key)

    warm = best_cpu_s(leaves_from_store, effort.repeats)
    cold = best_cpu_s(
        lambda: [find_one(_cold(branch), root, key) for key in chosen[:100]], effort.repeats
    )
    bulk = best_cpu_s(lambda: find_many(_cold(branch), root, many), effort.repeats)
    emit(
        "lookup",
        keys=len(keys),
        all_cached_us=cached / 500 * 1e6,
        leaf_from_store_us=warm / 500 * 1e6,
        nothing_cached_us=cold / 100 * 1e6,
        bulk_of_100_us_per_key=bulk / len(many) * 1e6,
        peak_heap_bytes=peak_heap_bytes(lambda: find_one(_cold(branch), root, chosen[0])),
        prototype_us=_prototype(len(keys), "lookup"),
    )


def _page(branch: Branch, keys: list[bytes], effort: Effort) -> None:
    root = branch.index.root
    pick = Random(4)
    starts = [pick.choice(keys[: max(1, len(keys) - 250)]) for _ in range(50)]
    nodes = _cold(branch)

    def pages() -> None:
        nodes.forget_leaves()
        for start in starts:
            read_page(nodes, root, start, None, 250)

    pages()
    before = nodes.misses
    pages()
    read = (nodes.misses - before) / 50
    seconds = best_cpu_s(pages, effort.repeats)
    cached = per_call_us(lambda: read_page(nodes, root, starts[-1], None, 250), 50, effort.repeats)
    emit(
        "page",
        elements=250,
        keys=len(keys),
        leaves_from_store_us=seconds / 50 * 1e6,
        leaves_cached_us=cached,
        nodes_read=read,
        peak_heap_bytes=peak_heap_bytes(lambda: read_page(nodes, root, starts[0], None, 250)),
        prototype_us_us_nodes=_prototype(len(keys), "page"),
    )


def _scan(branch: Branch, keys: list[bytes], effort: Effort) -> None:
    root = branch.index.root
    seconds = best_cpu_s(
        lambda: sum(1 for _ in iterate(branch.nodes, root)), min(2, effort.repeats)
    )
    emit(
        "scan",
        keys=len(keys),
        keys_per_s=len(keys) / seconds,
        prototype_keys_per_s=_prototype(len(keys), "scan"),
    )


def _edit_and_difference(branch: Branch, size: int, changes: list[Change], effort: Effort) -> None:
    root = branch.index.root
    made: list[NewNode] = []
    nodes = _cold(branch)

    def edit() -> None:
        made[:] = edit_tree(nodes, branch.rule, TABLES.width, root, changes).nodes

    edit()
    seconds = best_cpu_s(edit, effort.repeats)
    emit(
        "edit",
        changes=len(changes),
        keys=size,
        us=seconds * 1e6,
        nodes_written=len(made),
        kb_written=sum(len(new.raw) for new in made) / 1_024,
        peak_heap_kb=peak_heap_bytes(edit) / 1_024,
    )
    branch.objects.store_many((new.obj_id, new.raw) for new in made)
    other = made[-1].obj_id
    cold = _cold(branch)
    found = list(diff_trees(cold, root, other))
    seconds = best_cpu_s(lambda: list(diff_trees(_cold(branch), root, other)), effort.repeats)
    emit(
        "difference",
        changes=len(changes),
        keys=size,
        found=len(found),
        nodes_read=cold.misses,
        nothing_cached_ms=seconds * 1e3,
        prototype_nodes_ms=_prototype(size, "difference"),
    )
