"""Closing waits for running calls, and the parameters of an address apply at every opening."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from lochan.base.errors import StoreClosed
from lochan.kv.store import Partition
from lochan.kv.url import StoreUrl
from lochan.stores.rocksdb import open_store
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.running_calls import RunningCalls
from lochan.stores.rocksdb.store import RocksStore

PLACE = Partition(b"place")


class BlockedRead:
    """A bulk read that does not return until another thread closes the store."""

    def __init__(self, store: RocksStore) -> None:
        self.real = store._db
        self.log: list[str] = []
        self.inside = Event()
        self.moved = Event()
        blocked = self

        class WatchedCalls(RunningCalls):
            def wait_until_none(self) -> None:
                blocked.moved.set()
                super().wait_until_none()

        store._running_calls = WatchedCalls()
        store._db = self  # type: ignore[assignment]

    def get(self, names: list[bytes]) -> list[bytes | None]:
        self.inside.set()
        self.moved.wait()
        found = self.real.get(names)  # type: ignore[arg-type]
        self.log.append("read")
        return found  # type: ignore[return-value]

    def latest_sequence_number(self) -> int:
        return self.real.latest_sequence_number()

    def flush_wal(self, sync: bool) -> None:
        self.real.flush_wal(sync)

    def close(self) -> None:
        self.log.append("closed")
        self.moved.set()
        self.real.close()


def test_closing_waits_for_a_read_that_is_inside(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", Parameters())
    names = [(PLACE, b"%d" % number) for number in range(50)]
    store.put_many([(where, key, b"x") for where, key in names])
    read = BlockedRead(store)
    found: list[object] = []
    reader = Thread(target=lambda: found.extend(store.get_many(names)))
    reader.start()
    read.inside.wait()
    closer = Thread(target=store.close)
    closer.start()
    for thread in (reader, closer):
        thread.join()
    assert read.log == ["read", "closed"]
    assert len(found) == 50
    assert all(found)
    with pytest.raises(StoreClosed):
        store.get_many(names)


def test_the_parameters_of_the_address_apply_at_every_opening(tmp_path: Path) -> None:
    for cache_mb in (16, 8, 32):
        store = open_store(StoreUrl("rocksdb", f"{tmp_path / 'store'}?cache_mb={cache_mb}"))
        assert isinstance(store, RocksStore)
        capacity = store._db.property_int_value("rocksdb.block-cache-capacity")
        assert capacity == cache_mb * 1_024 * 1_024
        store.close()
