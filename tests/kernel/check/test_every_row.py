"""A check finds every row that is lost, exchanged or changed in any byte, one at a time.

What it cannot find, and why:

- a claim that is missing: claims are swept after a day, so none has to be there (a changed one is
  found);
- a reference row that was replaced by an older state of itself: nothing else shows which is newer;
- the stamp and the half-day that a store keeps beside a value are no part of what Lochan wrote. A
  changed stamp makes one conditional write lose and be tried again; a half-day shows only how long
  an unreferenced object is kept. RocksDB has checksums of its own over both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lochan.assembly import open_store
from lochan.codec.forms import is_of_type
from lochan.codec.objects import TYPE_NODE, TYPE_VALUE
from lochan.embedded import Embedded
from lochan.kernel import check as check_module
from lochan.kernel import check_store as store_module
from lochan.kernel.check import RepositoryCheck
from lochan.kernel.check_findings import Report, RowKind, Severity
from lochan.kernel.check_history import HistoryCheck
from lochan.kernel.check_trees import TreeCheck
from lochan.kv.store import Kind, Store
from lochan.model.commits import Delete, Put
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from tests.kernel.check.small import (
    Row,
    checked,
    grown,
    kind_of,
    lowered_limits,
    ports,
    rows_of,
    table,
)
from tests.profile import counted

SEED = int(os.environ.get("LOCHAN_FLIP_SEED", "0")) or Random().randrange(1, 10**9)
# Of so many flips one is made.
ONE_IN = {"memory": counted(10, 1), "rocksdb": counted(100, 1)}
SHARDS = counted(8, 64)


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with lowered_limits():
        yield


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with lowered_limits():
        return rows_of(grown())


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest, rows: list[Row], tmp_path: Path) -> Iterator[Store]:
    """The same rows in each kind of store."""
    opened: Store = MemoryStore()
    if request.param == "rocksdb":
        opened = open_store(f"rocksdb:{tmp_path / 'store'}", any_format=True)
    opened.put_many(rows)
    yield opened
    opened.close()


def after(store: Store, row: Row, value: bytes | None) -> Report:
    """Checks with one row changed or, for None, taken away; then puts it back."""
    place, key, _ = row
    if value is None:
        store.delete(place, key)
    else:
        store.put_many([(place, key, value)])
    report = checked(store)
    store.put_many([row])
    return report


def shown(row: Row) -> str:
    return f"{kind_of(row).name} {row[1]!r}"


def test_nothing_is_found_in_a_sound_store_and_every_row_is_read(store: Store, rows: list[Row]):
    report = checked(store, unreferenced=True)
    assert report.findings == ()
    read = report.progress
    objects = [row for row in rows if kind_of(row) is Kind.OBJECTS]
    assert read.objects == len(objects)
    assert read.commits + read.nodes + read.contents + read.tags == len(objects)
    assert {one.kind: one.rows for one in report.unjudged if one.repository == "repo"} == {
        "claims": 1,
        "unreferenced objects": 0,
    }
    assert min(read.tags, read.moves, read.claims, read.settings, read.nodes) > 0


def test_every_row_that_is_taken_away_is_missed(store: Store, rows: list[Row]):
    unnoticed = [shown(row) for row in rows if not after(store, row, None).damaged]
    claims = [shown(row) for row in rows if kind_of(row) is Kind.CLAIMS]
    assert unnoticed == claims
    assert checked(store).findings == ()


def test_every_row_that_is_replaced_by_another_of_its_kind_is_found(store: Store, rows: list[Row]):
    unnoticed = []
    for row in rows:
        others = [
            other
            for other in rows
            if kind_of(other) is kind_of(row) and other[1:] != row[1:] and other[2] != row[2]
        ]
        # Of rows with the same key in another repository too, such as settings and descriptions.
        twins = [other for other in others if other[1] == row[1]]
        for other in {*others[:2], *others[-2:], *twins}:
            if not after(store, row, other[2]).damaged:
                unnoticed.append(f"{shown(row)} replaced by {shown(other)}")
    assert unnoticed == []


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_byte_that_is_flipped_is_found(
    store: Store, rows: list[Row], shard: int, request: pytest.FixtureRequest
):
    random = Random(f"{SEED} {shard}")
    one_in = ONE_IN[request.node.callspec.params["store"]]
    unnoticed, flips = [], 0
    for row in rows[shard::SHARDS]:
        raw = row[2]
        for at in range(len(raw)):
            mask = random.randrange(1, 256)
            if random.randrange(one_in):
                continue
            flips += 1
            report = after(store, row, raw[:at] + bytes((raw[at] ^ mask,)) + raw[at + 1 :])
            # Damage is never taken for something that an upgrade would read.
            if not report.damaged or report.newer:
                unnoticed.append(f"byte {at} of {shown(row)} by {mask:#04x}")
    print(f"{flips} flips in {len(rows[shard::SHARDS])} rows, LOCHAN_FLIP_SEED={SEED}")
    assert unnoticed == [], f"LOCHAN_FLIP_SEED={SEED}"
    assert checked(store).findings == ()


def test_a_finding_names_the_row_who_refers_to_it_and_what_it_means(rows: list[Row]):
    store = MemoryStore()
    store.put_many(rows)
    for row in rows:
        report = after(store, row, None)
        damage = [one for one in report.findings if one.severity is Severity.DAMAGE]
        for one in damage:
            assert one.row
            assert one.what
            assert one.meaning
        if kind_of(row) is Kind.OBJECTS:
            named = [one for one in damage if one.row == row[1].hex()]
            assert named, f"the object itself is named: {shown(row)}"
            assert all(one.problem.value == "missing" for one in named)
            assert any(one.referred_by for one in named)
            assert {one.kind for one in named} <= {
                RowKind.COMMIT,
                RowKind.NODE,
                RowKind.CONTENT,
                RowKind.TAG,
            }


# A check that leaves out one kind of row: what the tests above must notice, by the kind of row.
WEAKENED: dict[str, tuple[object, str, Kind]] = {
    "contents": (TreeCheck, "finish", Kind.OBJECTS),
    "nodes": (TreeCheck, "check_tree", Kind.OBJECTS),
    "commits": (HistoryCheck, "walk", Kind.OBJECTS),
    "rows": (RepositoryCheck, "_check_row", Kind.REFERENCES),
    "log": (RepositoryCheck, "_check_log", Kind.LOG),
    "deletions": (RepositoryCheck, "_check_deletion", Kind.REFERENCES),
    "settings": (check_module, "check_settings", Kind.META),
    "instances": (store_module, "_check_instances", Kind.REPOSITORIES),
    "format": (store_module, "_check_format", Kind.META),
}


@pytest.mark.parametrize("left_out", WEAKENED)
def test_a_check_that_leaves_a_kind_out_would_be_noticed(
    left_out: str, rows: list[Row], monkeypatch: pytest.MonkeyPatch
):
    place, name, kind = WEAKENED[left_out]
    monkeypatch.setattr(place, name, lambda *_, **__: None)
    store = MemoryStore()
    store.put_many(rows)
    wanted = [row for row in rows if kind_of(row) is kind]
    flipped = (after(store, row, row[2][:-1] + bytes((row[2][-1] ^ 1,))) for row in wanted)
    missing = (after(store, row, None) for row in wanted)
    assert not all(report.damaged for report in (*missing, *flipped))


def test_without_history_only_what_is_no_longer_pointed_at_is_left_out(rows: list[Row]):
    """Commits, rows and everything that a reference or the ref-log leads to are read anyway."""
    store = MemoryStore()
    store.put_many(rows)
    repositories = Repositories(store, ports())
    repo = Embedded(store, repositories.open("repo"), "me")
    for number in range(25):
        passing = ("db", f"passing{number}")
        put = Put(key=passing, content=table(100 + number))
        repo.commits.commit("main", f"put {number}", [put])
        repo.commits.commit("main", f"remove {number}", [Delete(key=passing)])
    everything = rows_of(store)
    unnoticed = []
    for row in everything:
        place, key, _ = row
        store.delete(place, key)
        if not checked(store, history=False).damaged:
            unnoticed.append(row)
            assert checked(store).damaged or kind_of(row) is Kind.CLAIMS
        store.put_many([row])
    assert unnoticed
    for row in unnoticed:
        if kind_of(row) is not Kind.CLAIMS:
            assert is_of_type(row[2], TYPE_VALUE) or is_of_type(row[2], TYPE_NODE)
