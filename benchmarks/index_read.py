"""The tree on RocksDB: build, lookup, page, scan, difference, edit; peak heap of a build."""

from __future__ import annotations

import tempfile
import tracemalloc
from random import Random

from benchmarks.change import TABLES, Branch
from benchmarks.data import Files, Tables
from benchmarks.measure import OtherCores, best_cpu_s, emit, per_call_us
from lochan.assembly import open_store
from lochan.index.build import build_tree
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.node import NewNode
from lochan.index.read import find_one, iterate, read_page
from lochan.index.source import CachedNodes


def run(sizes: list[int]) -> None:
    for size in sizes:
        tables = Tables(size)
        keys = tables.sorted_keys(size)
        items = [(key, tables.element()) for key in keys]
        _build_in_memory(size, items)
        with tempfile.TemporaryDirectory() as folder:
            _on_rocksdb(folder, size, tables, keys, items)


def _build_in_memory(size: int, items: list[tuple[bytes, bytes]]) -> None:
    rule = Branch(open_store("memory:")).rule
    sizes: list[int] = []
    seconds = best_cpu_s(
        lambda: build_tree(rule, TABLES.width, items, lambda new: sizes.append(len(new.raw))), 3
    )
    per_run = len(sizes) // 3
    files = Files(size).sorted_items(size)
    file_bytes: list[int] = []
    file_seconds = best_cpu_s(
        lambda: build_tree(rule, None, files, lambda new: file_bytes.append(len(new.raw))), 3
    )
    tracemalloc.start()
    build_tree(rule, TABLES.width, items[:100_000], lambda _: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    emit(
        "build_in_memory",
        keys=size,
        keys_per_s=size / seconds,
        nodes=per_run,
        bytes_per_element=sum(sizes[:per_run]) / size,
        file_keys_per_s=size / file_seconds,
        bytes_per_file=sum(file_bytes) / 3 / size,
        peak_heap_kb=peak / 1024,
    )


def _on_rocksdb(
    folder: str, size: int, tables: Tables, keys: list[bytes], items: list[tuple[bytes, bytes]]
) -> None:
    others = OtherCores()
    rounds = [_load(f"{folder}/db{number}", items) for number in range(2)]
    store = open_store(f"rocksdb:{folder}/db")
    branch = Branch(store)
    best = min(*rounds, best_cpu_s(lambda: branch.load(items), 1))
    used = others.used()
    emit("build_on_rocksdb", keys=size, keys_per_s=size / best, other_cores=used)
    root = branch.index.root
    _lookup(branch, size, keys)
    _page(branch, size, keys)
    seconds = best_cpu_s(lambda: sum(1 for _ in iterate(branch.nodes, root)), 2)
    emit("scan", keys=size, keys_per_s=size / seconds)
    _difference(branch, size, keys, tables)
    store.close()


def _load(path: str, items: list[tuple[bytes, bytes]]) -> float:
    store = open_store(f"rocksdb:{path}")
    branch = Branch(store)
    seconds = best_cpu_s(lambda: branch.load(items), 1)
    store.close()
    return seconds


def _cold(branch: Branch) -> CachedNodes:
    return CachedNodes(branch.objects, 64 * 1024 * 1024)


def _lookup(branch: Branch, size: int, keys: list[bytes]) -> None:
    root = branch.index.root
    pick = Random(3)
    chosen = [pick.choice(keys) for _ in range(500)]
    nodes = _cold(branch)
    for key in chosen:
        find_one(nodes, root, key)
    cached = best_cpu_s(lambda: [find_one(nodes, root, key) for key in chosen])

    def leaves_from_store() -> None:
        nodes.forget_leaves()
        for key in chosen:
            find_one(nodes, root, key)

    warm = best_cpu_s(leaves_from_store)
    cold = best_cpu_s(lambda: [find_one(_cold(branch), root, key) for key in chosen[:100]])
    emit(
        "lookup",
        keys=size,
        all_cached_us=cached / 500 * 1e6,
        leaf_from_store_us=warm / 500 * 1e6,
        nothing_cached_us=cold / 100 * 1e6,
    )


def _page(branch: Branch, size: int, keys: list[bytes]) -> None:
    root = branch.index.root
    pick = Random(4)
    starts = [pick.choice(keys[: max(1, size - 250)]) for _ in range(50)]
    nodes = _cold(branch)

    def pages() -> None:
        nodes.forget_leaves()
        for start in starts:
            read_page(nodes, root, start, None, 250)

    pages()
    before = nodes.misses
    pages()
    read = (nodes.misses - before) / 50
    seconds = best_cpu_s(pages)
    cached = per_call_us(lambda: read_page(nodes, root, starts[-1], None, 250), 50)
    emit(
        "page_of_250",
        keys=size,
        leaves_from_store_us=seconds / 50 * 1e6,
        nodes_read=read,
        leaves_cached_us=cached,
    )


def _difference(branch: Branch, size: int, keys: list[bytes], tables: Tables) -> None:
    root = branch.index.root
    pick = Random(6)
    changes = sorted((key, tables.element()) for key in pick.sample(keys, min(10, size)))
    made: list[NewNode] = []
    nodes = _cold(branch)

    def edit() -> None:
        made[:] = edit_tree(nodes, branch.rule, TABLES.width, root, changes).nodes

    edit()
    edit_s = best_cpu_s(edit)
    branch.objects.store_many((new.obj_id, new.raw) for new in made)
    other = made[-1].obj_id
    cold = _cold(branch)
    found = list(diff_trees(cold, root, other))
    seconds = best_cpu_s(lambda: list(diff_trees(_cold(branch), root, other)))
    emit(
        "difference_of_10",
        keys=size,
        found=len(found),
        nodes_read=cold.misses,
        nothing_cached_ms=seconds * 1e3,
        edit_of_10_us=edit_s * 1e6,
        edit_nodes=len(made),
    )
