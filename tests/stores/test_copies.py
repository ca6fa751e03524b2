"""A copy from every store to every other one has every row, also if it was killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.assembly import open_store
from lochan.kv.format import check_format
from lochan.kv.store import Store
from lochan.testing.faults import FaultyStore, SimulatedCrash
from lochan.transfer import store_copy
from lochan.transfer.sources import StoreSource
from tests.kernel.workbench import wants
from tests.profile import counted
from tests.stores.available import fresh_urls
from tests.transfer.test_erasure import Eraser, instance_of, token_of
from tests.transfer.test_store_copy import CrashAt
from tests.transfer.workbench import contents, copy, fill


@pytest.mark.slow
@pytest.mark.xdist_group("dynamodb")
def test_a_copy_between_any_two_stores_has_every_row(
    tmp_path: Path, record_property, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_copy, "COPY_PAGE_ROWS_FIRST", 20)
    monkeypatch.setattr(store_copy, "COPY_PAGE_ROWS_MAX", 20)
    monkeypatch.setattr(store_copy, "COPY_PAGES_UNSAVED_MAX", 1)
    folders = [tmp_path / name for name in ("sources", "first", "second")]
    for folder in folders:
        folder.mkdir()
    sources = {scheme: opened(url) for scheme, url in fresh_urls(folders[0]).items()}
    for store in sources.values():
        fill(store, commits=counted(20, 200))
    wanted = {scheme: contents(store) for scheme, store in sources.items()}
    # A ring of copies: each store is a source once and a target once, and the last is the first.
    schemes = list(sources)
    pairs = list(zip(schemes, [*schemes[1:], schemes[0]], strict=True))
    targets = fresh_urls(folders[1])
    if counted(0, 1):
        pairs = [(left, right) for left in schemes for right in schemes]
    for number, (left, right) in enumerate(pairs):
        folder = folders[2] / str(number)
        folder.mkdir()
        target = opened(targets.pop(right, "") or fresh_urls(folder)[right])
        with pytest.raises(SimulatedCrash):
            copy(sources[left], FaultyStore(target, CrashAt(100 + number)), seed=number)
        report = copy(sources[left], target)
        assert report.resumed
        assert contents(target) == wanted[left], (left, right)
        check_format(target)
        target.close()
    record_property("counted", f"copies between stores: {len(pairs)} of {', '.join(schemes)}")
    for store in sources.values():
        store.close()


@pytest.mark.slow
@pytest.mark.xdist_group("dynamodb")
def test_a_repository_is_erased_on_every_store(tmp_path: Path, record_property) -> None:
    for scheme, url in fresh_urls(tmp_path).items():
        store = opened(url)
        bench = fill(store)
        instance = instance_of(store, "repo")
        Eraser(store).erase("repo", token_of(store, "repo"))
        walk = StoreSource(store).walk
        cursor: bytes | None = b""
        while cursor is not None:
            page = walk(bytes(instance), cursor, 100)
            assert page.rows == [], scheme
            cursor = page.next_cursor
        assert instance_of(store, "other")
        assert bench.context.instance == instance
        store.close()


def opened(url: str) -> Store:
    return open_store(url, any_format=True)


def test_what_is_committed_after_a_copy_is_the_same_on_both_sides() -> None:
    from lochan.stores.memory.store import MemoryStore

    source, target = MemoryStore(), MemoryStore()
    bench = fill(source)
    copy(source, target)
    copied = bench.again(target, seed=2)
    original = bench.again(source, seed=2)
    for number in range(100, 140):
        copied.commit(wants(number))
        original.commit(wants(number))
    assert copied.row().pointer == original.row().pointer
