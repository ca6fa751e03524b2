"""A store with rows of every kind, and what a store contains; holds no test of its own."""

from __future__ import annotations

from lochan.base.ids import ROOT_INSTANCE, ObjId
from lochan.codec.forms import add_checksum
from lochan.kernel.provenance import Initiator
from lochan.kernel.repository import Ports, create_repository, delete_repository
from lochan.kv.format import check_format
from lochan.kv.store import Kind, Partition, Store, partition
from lochan.kv.walk import WalkPage
from lochan.persist.imports import ImportRow, ImportRows
from lochan.persist.uploads import UploadRow, UploadRows
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from lochan.transfer.sources import StoreSource
from lochan.transfer.store_copy import CopyReport, StoreCopy, list_instances
from tests.kernel.workbench import MAIN, claim, wants
from tests.service.access_bench import ADMIN, AccessBench
from tests.staging.workbench import SIDE, StagingBench

SOURCE = b"s" * 16
Rows = dict[Partition, dict[bytes, bytes]]


def new_ports(seed: int = 7) -> Ports:
    clock = ManualClock()
    return Ports(clock, SeededRandom(seed), RecordedWaiting(clock))


def fill(store: Store, commits: int = 6, files: int = 12) -> StagingBench:
    """Makes history, staged files, claims, uploads, users with sealed keys, three repositories."""
    check_format(store)
    bench = StagingBench(store, seed=11)
    for number in range(commits):
        bench.commit(wants(number))
    bench.branch(SIDE)
    for number in range(files):
        bench.put(f"folder/{number}", f"content {number}", SIDE)
    bench.commit_files("files", SIDE)
    bench.put("left", "staged", SIDE)
    for number in range(20):
        pointer = ObjId(bench.row(SIDE).pointer)
        bench.names.assign(SIDE, pointer, ObjId(bench.row(MAIN).pointer), Initiator(f"a{number}"))
        head = ObjId(bench.row(SIDE).pointer)
        bench.names.assign(SIDE, head, pointer, Initiator(f"b{number}"))
    context, retry = bench.context, bench.context.retry
    claim(context, "ada", "key", b"request", MAIN)
    uploads = UploadRows(store, context.instance)
    uploads.add(UploadRow(1, "main", 1, "a/b", "u1", "p", b"o" * 16, "ada", 5), retry())
    imports = ImportRows(store, context.instance)
    imports.add(ImportRow(1, "i1", "main", "ada", "completed", 3, 5, 6), retry())
    place = partition(context.instance, Kind.KEY_PACKS, b"k")
    row = with_checksum(b"\x91\x01")
    cursors = [partition(one, Kind.CURSORS) for one in (ROOT_INSTANCE, context.instance)]
    store.put_many([(place, b"k" * 32, row), *[(one, b"hook", row) for one in cursors]])
    other = create_repository(store, new_ports(3), "other")
    assert other.instance != context.instance
    gone = create_repository(store, new_ports(4), "gone")
    delete_repository(gone)
    add_users(store)
    return bench


def add_users(store: Store) -> tuple[str, str]:
    """Sets access up; returns the token of the first user and the secret of an access key."""
    bench = AccessBench(store, seed=21)
    first = bench.access.set_up(ADMIN, "root")
    bench.access.create_user(ADMIN, "ada")
    bench.access.add_member(ADMIN, "ada", "writers")
    made = bench.access.create_access_key(ADMIN, "ada")
    return first.secret, made.secret


def with_checksum(body: bytes) -> bytes:
    return add_checksum(body)


def contents(store: Store) -> Rows:
    """Every row of the root and of the repositories that are listed, by partition."""
    source = StoreSource(store)
    rows: Rows = {}
    for instance in (ROOT_INSTANCE, *list_instances(source)):
        cursor: bytes | None = b""
        while cursor is not None:
            page: WalkPage = source.walk(bytes(instance), cursor, 1_000)
            for place, entry in page.rows:
                rows.setdefault(place, {})[entry.key] = entry.value
            cursor = page.next_cursor
    return rows


def copy(source: Store, target: Store, seed: int = 7) -> CopyReport:
    return StoreCopy(StoreSource(source), target, new_ports(seed), SOURCE).run()


def kinds(rows: Rows) -> set[int]:
    return {place[16] for place in rows}
