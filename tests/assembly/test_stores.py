"""Stores are found by the scheme of their address, through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from lochan.assembly import STORE_GROUP, open_store, plugins
from lochan.assembly.plugins import plugin_names
from lochan.base.errors import InvalidUrl, NewerFormat, StoreClosed
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION, encode_mark
from lochan.kv.store import Store
from lochan.kv.url import StoreUrl
from lochan.stores.memory.store import MemoryStore

OPENED: list[MemoryStore] = []


def open_newer(url: StoreUrl) -> Store:
    store = MemoryStore()
    store.put_many([(FORMAT_PARTITION, FORMAT_KEY, encode_mark(2))])
    OPENED.append(store)
    return store


def install(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = EntryPoints(
        EntryPoint(name.rstrip("_"), value, STORE_GROUP) for name, value in values.items()
    )
    monkeypatch.setattr(plugins, "entry_points", points.select)


def test_both_embedded_stores_are_installed(tmp_path: Path) -> None:
    assert {"memory", "rocksdb"} <= set(plugin_names(STORE_GROUP))
    for text in ("memory:", f"rocksdb:{tmp_path / 'store'}"):
        store = open_store(text)
        entry = store.get(FORMAT_PARTITION, FORMAT_KEY)
        assert entry is not None
        assert entry.value == encode_mark(1)
        store.close()


def test_an_unknown_scheme_names_those_that_are_known() -> None:
    with pytest.raises(InvalidUrl, match=r"'mysql'.*memory.*rocksdb"):
        open_store("mysql://user:SECRET@host/db")


def test_a_missing_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, foreign="package_that_is_not_there:open_store")
    with pytest.raises(InvalidUrl, match="package_that_is_not_there"):
        open_store("foreign:")


def test_two_packages_for_one_scheme_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, twice="lochan.stores.memory:open_store", twice_="elsewhere:open_store")
    with pytest.raises(InvalidUrl, match="more than one"):
        open_store("twice:")


def test_a_store_of_a_newer_format_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, newer=f"{__name__}:open_newer")
    monkeypatch.setattr(EntryPoint, "load", lambda self: open_newer)
    with pytest.raises(NewerFormat):
        open_store("newer:")
    with pytest.raises(StoreClosed):
        OPENED[-1].epoch()
