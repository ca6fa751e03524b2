"""Counts of a store: exact ones are exact, quick ones state what they are."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from lochan.base.errors import Invalid
from lochan.embedded import Embedded, open_repository
from lochan.kv.store import Adds, Kind, Partition, Store, partition
from lochan.model.commits import Put
from lochan.model.stores import KindCount
from lochan.stores.memory.store import MemoryStore
from lochan.transfer import counts
from lochan.transfer.counts import add_counts, count_page
from lochan.transfer.sources import StoreSource
from tests.service.bench import table
from tests.transfer.test_erasure import instance_of
from tests.transfer.test_store_copy import WithoutWalk
from tests.transfer.workbench import contents, fill


def count(store: Store, *, exact: bool) -> list[KindCount]:
    source = StoreSource(store)
    page = count_page(source, exact=exact)
    found = list(page.counts)
    while page.token is not None:
        page = count_page(source, exact=exact, token=page.token)
        found += page.counts
    return add_counts(found)


def wanted(store: Store) -> dict[tuple[str, str], tuple[int, int]]:
    """Rows and bytes of the repository `repo`, and of no repository, by kind."""
    names = {bytes(16): "", instance_of(store, "repo"): "repo"}
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for place, rows in contents(store).items():
        name = names.get(place[:16])
        if name is not None:
            key = (name, Kind(place[16]).name.lower().replace("_", " "))
            had = sums.get(key, (0, 0))
            size = sum(len(value) for value in rows.values())
            sums[key] = (had[0] + len(rows), had[1] + size)
    return sums


@pytest.mark.parametrize("wrap", [lambda store: store, WithoutWalk], ids=["walk", "no walk"])
@pytest.mark.parametrize("exact", [True, False])
def test_a_small_store_is_counted_exactly(wrap: Callable[[Store], Store], exact: bool) -> None:
    store = MemoryStore()
    fill(store, commits=20)
    if exact and wrap is WithoutWalk:
        pytest.skip("an exact count of rows needs a store that reads across partitions")
    found = count(wrap(store), exact=exact)
    here = {
        (one.repository, one.kind): (one.rows, one.bytes)
        for one in found
        if one.repository in ("", "repo") and one.rows
    }
    expected = wanted(store)
    if not exact:
        # The mark of the format is left out.
        rows, size = expected[("", "meta")]
        expected[("", "meta")] = (rows - 1, size - len(b"1 00000000"))
    if wrap is WithoutWalk:
        # Such a store has no quick way to see that there are few.
        del expected[("repo", "objects")]
    assert here == expected
    if wrap is not WithoutWalk:
        assert {one.accuracy for one in found} == {"exact"}
    assert {(one.repository, one.state) for one in found} == {
        ("", ""),
        ("repo", ""),
        ("other", ""),
        ("gone", "deleted"),
    }


def test_an_exact_count_is_done_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    fill(store, commits=20)
    whole = count(store, exact=True)
    monkeypatch.setattr(counts, "STATS_PAGES_MAX", 1)
    monkeypatch.setattr(counts, "COPY_PAGE_ROWS_MAX", 5)
    assert count(store, exact=True) == whole


def test_many_objects_are_estimated_by_a_sample() -> None:
    store = MemoryStore()
    fill(store)
    instance = instance_of(store, "repo")
    total = 60_000
    items = []
    for number in range(total):
        value = b"%d" % number
        key = sha256(value).digest()
        place = Partition(partition(instance, Kind.OBJECTS) + key[:2])
        items.append((place, key, b"x" * 100))
    for start in range(0, total, 10_000):
        store.add_many(Adds(items[start : start + 10_000], 1))
    (objects,) = [
        one
        for one in count(store, exact=False)
        if (one.repository, one.kind) == ("repo", "objects")
    ]
    assert objects.accuracy == "about"
    assert 0.7 * total < objects.rows < 1.3 * total
    assert 0.7 < objects.bytes / (100 * total) < 1.3


def test_many_rows_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "STATS_ROWS_MAX", 3)
    store = MemoryStore()
    fill(store)
    (log,) = [
        one for one in count(store, exact=False) if (one.repository, one.kind) == ("repo", "log")
    ]
    assert (log.rows, log.accuracy) == (3, "at least")


@pytest.mark.parametrize("token", ["x", "00", "00" * 16 + ".x", "00" * 17])
def test_a_token_of_another_thing_is_refused(token: str) -> None:
    with pytest.raises(Invalid, match="not one of a count"):
        count_page(StoreSource(MemoryStore()), token=token)


def test_a_commit_of_one_table_stores_about_six_kilobytes(record_property) -> None:
    def put(repository: Embedded, first: int, count: int) -> None:
        puts = [
            Put(key=(f"t{number:06d}",), content=table(f"s3://bucket/t{number:06d}/{number:032x}"))
            for number in range(first, first + count)
        ]
        repository.commits.commit("main", f"from {first}", puts)

    with open_repository("memory:") as repository:
        source = StoreSource(repository._store)
        for first in range(0, 20_000, 2_000):
            put(repository, first, 1_000)
        before = sum_of_objects(source)
        commits = 1_000
        for number in range(commits):
            put(repository, (number * 7_919) % 10 * 2_000 + 1_000 + number, 1)
        after = sum_of_objects(source)
    rows, size = ((right - left) / commits for left, right in zip(before, after, strict=True))
    record_property("counted", f"a commit of one table: {rows:.1f} objects, {size:,.0f} bytes")
    assert 2 < rows < 5
    assert 3_000 < size < 9_000


def sum_of_objects(source: StoreSource) -> tuple[int, int]:
    page = count_page(source, exact=True)
    found = list(page.counts)
    while page.token is not None:
        page = count_page(source, exact=True, token=page.token)
        found += page.counts
    objects = [one for one in add_counts(found) if one.kind == "objects"]
    return sum(one.rows for one in objects), sum(one.bytes for one in objects)
