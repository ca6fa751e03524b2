"""Group flush: one synchronisation for all who wait, none too early, and a failure is final."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from lochan.base.errors import StoreClosed, Unknown
from lochan.kv.store import ABSENT, PRESENT, Adds, Partition, SetIf, Won
from lochan.stores.rocksdb.group_flush import GroupFlush
from lochan.stores.rocksdb.options import Parameters
from lochan.stores.rocksdb.store import RocksStore

PLACE = Partition(b"place")


class Disk:
    """A log whose synchronisation can be watched, held up and broken."""

    def __init__(self) -> None:
        self.written = 0
        self.synchronised: list[int] = []
        self.failures: list[str] = []
        self.busy = Event()
        self.go_on = Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.group = GroupFlush(self.synchronise, lambda: self.written, self.failures.append)

    def synchronise(self) -> None:
        covered = self.written
        self.busy.set()
        self.go_on.wait()
        if self.error is not None:
            raise self.error
        self.synchronised.append(covered)


def test_what_is_durable_needs_no_second_flush() -> None:
    disk = Disk()
    disk.group.up_to(0)
    assert disk.synchronised == []
    disk.written = 5
    disk.group.up_to(3)
    for epoch in (1, 3, 5):
        disk.group.up_to(epoch)
    assert disk.synchronised == [5]
    disk.written = 6
    disk.group.up_to(6)
    assert disk.synchronised == [5, 6]


def test_a_write_during_a_flush_is_not_covered_by_it() -> None:
    disk = Disk()
    disk.written = 1
    disk.go_on.clear()
    leader = Thread(target=disk.group.up_to, args=(1,))
    leader.start()
    disk.busy.wait()
    disk.written = 2
    disk.go_on.set()
    leader.join()
    disk.group.up_to(2)
    assert disk.synchronised == [1, 2]


def test_waiting_callers_share_one_flush() -> None:
    disk = Disk()
    disk.written = 1
    disk.go_on.clear()
    leader = Thread(target=disk.group.up_to, args=(1,))
    leader.start()
    disk.busy.wait()
    disk.written = 9
    followers = [Thread(target=disk.group.up_to, args=(epoch,)) for epoch in range(2, 10)]
    for follower in followers:
        follower.start()
    disk.go_on.set()
    for thread in (leader, *followers):
        thread.join()
    assert disk.synchronised == [1, 9]


def test_a_failed_flush_is_final_even_if_the_disk_recovers() -> None:
    disk = Disk()
    disk.written = 1
    disk.error = OSError("no space left")
    with pytest.raises(StoreClosed, match="no space left"):
        disk.group.up_to(1)
    disk.error = None
    with pytest.raises(StoreClosed, match="no space left"):
        disk.group.up_to(1)
    assert disk.synchronised == []
    assert len(disk.failures) == 1


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (OSError(errno.EIO, os.strerror(errno.EIO)), "EIO"),
        (Exception("IO error: No space left on device: While fsync: 000012.log"), "ENOSPC"),
        (Exception("Corruption: something else"), "unknown"),
    ],
)
def test_a_failed_flush_logs_its_cause(
    error: Exception, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    disk.written = 1
    disk.error = error
    disk.group = GroupFlush(
        disk.synchronise, lambda: disk.written, disk.failures.append, "data/store"
    )
    for _ in range(2):
        with pytest.raises(StoreClosed):
            disk.group.up_to(1)
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("CRITICAL", "lochan.stores.rocksdb")
    message = record.getMessage()
    assert message.startswith(f"flush failed store=data/store errno={name} error=")
    assert str(error) in message


class BrokenStore(RocksStore):
    """A store whose disk fails on demand."""

    broken = False

    def _synchronise(self) -> None:
        if self.broken:
            raise OSError("input/output error")
        super()._synchronise()


def test_a_failed_flush_stops_the_whole_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = BrokenStore(tmp_path / "store", Parameters())
    store.put_many([(PLACE, b"a", b"x")])
    store.flush(store.epoch())
    store.put_many([(PLACE, b"b", b"x")])
    epoch = store.epoch()
    store.broken = True
    with pytest.raises(StoreClosed, match="a flush failed: input/output error"):
        store.flush(epoch)
    assert f"store={tmp_path / 'store'} errno=" in caplog.text
    assert "OSError: input/output error" in caplog.text
    store.broken = False
    for call in (
        lambda: store.flush(epoch),
        lambda: store.flush(0),
        store.epoch,
        lambda: store.get(PLACE, b"a"),
        lambda: store.put_many([(PLACE, b"c", b"x")]),
        lambda: store.set_if(PLACE, b"a", b"x", PRESENT),
        lambda: store.scan(PLACE, b"", None, 1),
    ):
        with pytest.raises(StoreClosed, match="a flush failed"):
            call()
    store.close()
    store.close()
    again = RocksStore(tmp_path / "store", Parameters())
    assert again.get(PLACE, b"a") is not None
    again.close()


def test_a_flush_that_fails_while_closing_raises(tmp_path: Path) -> None:
    store = BrokenStore(tmp_path / "store", Parameters())
    store.put_many([(PLACE, b"a", b"x")])
    store.broken = True
    with pytest.raises(StoreClosed, match="a flush failed"):
        store.close()
    RocksStore(tmp_path / "store", Parameters()).close()


def test_a_write_that_failed_is_unknown_and_stops_the_store(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", Parameters())
    real = store._db

    class FullDisk:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def write(self, batch: object) -> None:
            raise OSError("IO error: No space left on device")

    store._db = FullDisk()  # type: ignore[assignment]
    with pytest.raises(Unknown, match="No space left"):
        store.set_if(PLACE, b"a", b"x", ABSENT)
    with pytest.raises(StoreClosed, match="a write failed"):
        store.get(PLACE, b"a")
    store._db = real
    store.close()


def test_stamps_carry_the_number_of_the_opening(tmp_path: Path) -> None:
    openings: list[int] = []
    for _ in range(3):
        store = RocksStore(tmp_path / "store", Parameters())
        outcome = store.apply(Adds([], 0), SetIf(PLACE, b"%d" % len(openings), b"x", ABSENT))
        assert isinstance(outcome, Won)
        openings.append(int.from_bytes(outcome.stamp, "big") >> 40)
        store.close()
    assert openings == [1, 2, 3]
