"""`lochan demo`: a short story, told on the embedded store.

A repository of tables and files is built, one table changes, and the story shows what that cost,
what differs, and what happens to rivals, crashes and damaged bytes. Every number is counted here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from lochan.assembly import open_store
from lochan.base.errors import Corrupt
from lochan.base.ids import InstanceId, ObjId, content_id_from_uuid_bytes
from lochan.base.keys import Key, Universe, file_key, prefix_end, table_elements, table_key
from lochan.base.limits import NODE_CACHE_BYTES_MAX
from lochan.codec.elements import decode_table, encode_file, encode_table
from lochan.codec.objects import build_value, encode_object, object_id
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.layers import SHAPES
from lochan.index.node import Change, NewNode
from lochan.index.read import read_page
from lochan.index.source import CachedNodes
from lochan.kv.store import ABSENT, Kind, Lost, Store, Won, partition
from lochan.model.entries import FileEntry, TableEntry
from lochan.persist.objects import Objects
from lochan.system import SystemChance, SystemClock

_TABLES = 20_000
_FILES = 20_000
_BATCH_NODES = 64
_DEPARTMENTS = ("sales", "stock", "people", "web", "finance")


class _Repository:
    """As much of a repository as exists so far: objects and an index, no commits yet."""

    def __init__(self, store: Store, instance: InstanceId, seed: bytes) -> None:
        self.store = store
        self.instance = instance
        self.rule = BoundaryRule(seed)
        self.objects = Objects(store, instance, SystemClock())
        self.nodes = self.fresh_cache()
        self.stored = 0
        self.stored_bytes = 0

    def fresh_cache(self) -> CachedNodes:
        """Forgets everything, so that the next reads are counted from nothing."""
        self.nodes = CachedNodes(self.objects, NODE_CACHE_BYTES_MAX)
        return self.nodes

    def build(self, universe: Universe, items: Iterator[tuple[bytes, bytes]]) -> ObjId:
        """Builds and stores a tree; returns its root."""
        batch: list[NewNode] = []

        def sink(node: NewNode) -> None:
            batch.append(node)
            if len(batch) == _BATCH_NODES:
                self.save(batch)
                batch.clear()

        root = build_tree(self.rule, SHAPES[universe].width, items, sink)
        self.save(batch)
        if root is None:
            raise Corrupt("the demo builds trees that are not empty")
        return root

    def save(self, nodes: list[NewNode]) -> None:
        """Stores nodes and counts them."""
        self.objects.store_many((node.obj_id, node.raw) for node in nodes)
        self.stored += len(nodes)
        self.stored_bytes += sum(len(node.raw) for node in nodes)


def tell(data: Path, out: Console) -> None:
    """Tells the story; leaves its store in the directory."""
    chance = SystemChance()
    address = f"rocksdb:{data / 'store'}"
    out.print(f"[bold]Lochan[/bold]: one repository for tables and files, in {address}\n")
    store = open_store(address)
    instance, seed = InstanceId(chance.random_bytes(16)), chance.random_bytes(16)
    repository = _Repository(store, instance, seed)
    try:
        root = _build(repository, out)
        changed = _change(repository, root, out)
        _compare(repository, root, changed, out)
        _list(repository, changed, out)
        _same_content(repository, root, out)
        _race(repository, out)
    finally:
        store.close()
    _reopen(address, instance, seed, changed, out)


def _build(repository: _Repository, out: Console) -> ObjId:
    out.print("[bold]1. Fill it[/bold]")
    start = time.perf_counter()
    root = repository.build(
        Universe.TABLES, iter(track(_tables(), "  tables", console=out, transient=True))
    )
    repository.build(Universe.FILES, iter(track(_files(), "  files ", console=out, transient=True)))
    repository.store.flush(repository.store.epoch())
    seconds = time.perf_counter() - start
    out.print(
        f"   {_TABLES:,} tables and {_FILES:,} files indexed in {seconds:.2f} s:\n"
        f"   {repository.stored:,} nodes, {repository.stored_bytes / 1e6:.1f} MB, flushed to disk\n"
        f"   the tables' root is {root.hex()[:16]}…\n"
    )
    return root


def _change(repository: _Repository, root: ObjId, out: Console) -> ObjId:
    out.print("[bold]2. Change one table, add one, drop one[/bold]")
    before = repository.stored
    changes = [
        (_name(4_711), _element(4_711, version=2)),
        (table_key(["sales", "orders_of_today"]), _element(1, version=1)),
        (_name(815), None),
    ]
    changed = _edit(repository, root, sorted(changes))
    out.print(
        f"   {repository.stored - before} nodes written, the others are shared with the version "
        "before;\n   both versions stay readable\n"
    )
    return changed


def _edit(repository: _Repository, root: ObjId, changes: list[Change]) -> ObjId:
    width = SHAPES[Universe.TABLES].width
    edited = edit_tree(repository.nodes, repository.rule, width, root, changes)
    repository.save(edited.nodes)
    if edited.root is None:
        raise Corrupt("the demo's tree is not empty")
    return edited.root


def _compare(repository: _Repository, root: ObjId, changed: ObjId, out: Console) -> None:
    out.print("[bold]3. What differs?[/bold]")
    nodes = repository.fresh_cache()
    start = time.perf_counter()
    differences = list(diff_trees(nodes, root, changed))
    elapsed_ms = (time.perf_counter() - start) * 1e3
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("", "table", "before", "after"):
        table.add_column(title)
    for item in differences:
        sign = "+" if item.left is None else "-" if item.right is None else "~"
        name = ".".join(table_elements(Key(item.key)))
        table.add_row(sign, name, _short(item.left), _short(item.right))
    out.print(table)
    out.print(
        f"   found in {elapsed_ms:.1f} ms by reading {nodes.misses} nodes of "
        f"{repository.stored:,}: equal nodes are skipped unread\n"
    )


def _list(repository: _Repository, root: ObjId, out: Console) -> None:
    out.print("[bold]4. List a namespace[/bold]")
    nodes = repository.fresh_cache()
    prefix = table_key(["people"]) + b"\x01"
    page = read_page(nodes, root, prefix, prefix_end(prefix), 5)
    for key, element in page:
        entry = decode_table(element)
        out.print(f"   {'.'.join(table_elements(Key(key)))}  [dim]{entry.content_id}[/dim]")
    out.print(f"   … the first {len(page)}, {nodes.misses} nodes read\n")


def _same_content(repository: _Repository, root: ObjId, out: Console) -> None:
    out.print("[bold]5. Same content, same root[/bold]")
    without = _edit(repository, root, [(_name(4_711), None)])
    again = _edit(repository, without, [(_name(4_711), _element(4_711, version=1))])
    if again != root:
        raise Corrupt("the same content must have the same root")
    out.print(
        "   a table is dropped, which changes the root, and added again: the root is\n"
        f"   {again.hex()[:16]}… as in step 1; history leaves no trace in the index\n"
    )


def _race(repository: _Repository, out: Console) -> None:
    out.print("[bold]6. Two writers, one row[/bold]")
    row = partition(repository.instance, Kind.REFERENCES)
    first = repository.store.set_if(row, b"main", b"ours", ABSENT)
    second = repository.store.set_if(row, b"main", b"theirs", ABSENT)
    if not isinstance(first, Won) or not isinstance(second, Lost):
        raise Corrupt("exactly one of two rivals wins")
    out.print(
        "   the first conditional write won, the second lost and was told what is there now;\n"
        "   a third outcome, unknown, is never reported as either\n"
    )


def _reopen(address: str, instance: InstanceId, seed: bytes, root: ObjId, out: Console) -> None:
    out.print("[bold]7. Close, open again, then damage a byte[/bold]")
    store = open_store(address)
    try:
        repository = _Repository(store, instance, seed)
        page = read_page(repository.nodes, root, b"", None, 1)
        out.print(f"   still there: {'.'.join(table_elements(Key(page[0][0])))}")
        (raw,) = repository.objects.fetch_many([root])
        damaged = raw[:-1] + bytes((raw[-1] ^ 1,))
        name = partition(instance, Kind.OBJECTS, root[:2])
        store.put_many([(name, root, damaged)])
        try:
            read_page(repository.fresh_cache(), root, b"", None, 1)
        except Corrupt as error:
            out.print(f"   one flipped bit is found: [red]{error.kind}[/red]\n   {error.message}")
        store.put_many([(name, root, raw)])
    finally:
        store.close()
    out.print("\nThat is the ground. The commit kernel stands on it; its server comes next.")


def _tables() -> list[tuple[bytes, bytes]]:
    return sorted((_name(number), _element(number, version=1)) for number in range(_TABLES))


def _name(number: int) -> Key:
    department = _DEPARTMENTS[number % len(_DEPARTMENTS)]
    return table_key([department, f"region_{number % 7}", f"table_{number:05}"])


def _element(number: int, version: int) -> bytes:
    content = content_id_from_uuid_bytes(sha256(f"content {number}".encode()).digest()[:16])
    value = encode_object(build_value(content, 1, f"metadata of version {version}".encode()))
    return encode_table(TableEntry(1, object_id(value), content))


def _files() -> list[tuple[bytes, bytes]]:
    return sorted(
        (
            file_key(f"lake/day={number % 365:03}/part-{number:05}.parquet"),
            encode_file(FileEntry(f"objects/{number:08}", f"{number:032x}", number * 1_000, 0)),
        )
        for number in range(_FILES)
    )


def _short(element: bytes | None) -> str:
    return "" if element is None else decode_table(element).value.hex()[:12]
