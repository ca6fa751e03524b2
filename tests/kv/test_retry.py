"""Reads and adds are repeated a bounded number of times; conditional writes are sent once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.base.errors import Bug, LochanError, StoreClosed, StoreLocked, Unavailable, Unknown
from lochan.base.limits import READ_ATTEMPTS_MAX
from lochan.kv.retry import RetryingReads
from lochan.kv.store import ABSENT, PRESENT, Adds, Partition, SetIf, Store
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from lochan.testing.ports import RecordedWaiting

PLACE = Partition(b"place")
ADDS = Adds([(PLACE, b"object", b"body")], 1)

REPEATED: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(PLACE, b"a"),
    "get_many": lambda store: store.get_many([(PLACE, b"a")]),
    "scan": lambda store: store.scan(PLACE, b"", None, 10),
    "add_many": lambda store: store.add_many(ADDS),
}
SENT_ONCE: dict[str, Callable[[Store], object]] = {
    "put_many": lambda store: store.put_many([(PLACE, b"a", b"x")]),
    "set_if": lambda store: store.set_if(PLACE, b"a", b"x", ABSENT),
    "delete": lambda store: store.delete(PLACE, b"a"),
    "delete_if": lambda store: store.delete_if(PLACE, b"a", PRESENT),
    "apply": lambda store: store.apply(ADDS, SetIf(PLACE, b"a", b"x", ABSENT)),
    "hold": lambda store: store.hold(PLACE, b"a"),
    "drop_partition": lambda store: store.drop_partition(PLACE),
    "flush": lambda store: store.flush(0),
}


class FirstFail:
    """The first calls meet a fault, the others none."""

    def __init__(self, kind: FaultKind, count: int) -> None:
        self._kind = kind
        self._left = count

    def decide(self, call: PlannedCall) -> Fault:
        self._left -= 1
        return Fault(self._kind if self._left >= 0 else FaultKind.OK)


def wrap(kind: FaultKind, count: int) -> tuple[RetryingReads, FaultyStore, RecordedWaiting]:
    faulty = FaultyStore(MemoryStore(), FirstFail(kind, count))
    waiting = RecordedWaiting()
    return RetryingReads(faulty, waiting), faulty, waiting


@pytest.mark.parametrize("operation", REPEATED)
@pytest.mark.parametrize("failures", range(READ_ATTEMPTS_MAX))
def test_reads_and_adds_succeed_after_a_few_failures(operation: str, failures: int) -> None:
    store, faulty, waiting = wrap(FaultKind.NOT_APPLIED, failures)
    REPEATED[operation](store)
    assert faulty.calls == failures + 1
    assert waiting.sleeps_ms == [5, 10, 20][:failures]


@pytest.mark.parametrize("operation", REPEATED)
def test_attempts_are_bounded(operation: str) -> None:
    store, faulty, waiting = wrap(FaultKind.NOT_APPLIED, 99)
    with pytest.raises(Unavailable):
        REPEATED[operation](store)
    assert faulty.calls == READ_ATTEMPTS_MAX
    assert len(waiting.sleeps_ms) == READ_ATTEMPTS_MAX - 1


@pytest.mark.parametrize("operation", SENT_ONCE)
def test_everything_else_is_sent_once(operation: str) -> None:
    store, faulty, waiting = wrap(FaultKind.NOT_APPLIED, 99)
    with pytest.raises(Unavailable):
        SENT_ONCE[operation](store)
    assert faulty.calls == 1
    assert waiting.sleeps_ms == []


@pytest.mark.parametrize("operation", ["set_if", "apply", "delete_if", "put_many", "delete"])
def test_an_unknown_write_stays_unknown(operation: str) -> None:
    store, faulty, _ = wrap(FaultKind.LOST_REPLY, 1)
    with pytest.raises(Unknown):
        SENT_ONCE[operation](store)
    assert faulty.calls == 1


def test_adding_is_repeated_even_after_unknown() -> None:
    store, faulty, _ = wrap(FaultKind.LOST_REPLY, 2)
    store.add_many(ADDS)
    assert faulty.calls == 3
    entry = store.get(PLACE, b"object")
    assert entry is not None
    assert entry.value == b"body"


class Refusing(MemoryStore):
    def __init__(self, error: LochanError) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    def get(self, partition: Partition, key: bytes) -> None:
        self.calls += 1
        raise self.error


@pytest.mark.parametrize("error", [StoreClosed("x"), StoreLocked("x"), Unknown("x"), Bug("x")])
def test_what_waiting_cannot_mend_is_not_repeated(error: LochanError) -> None:
    inner = Refusing(error)
    with pytest.raises(type(error)):
        RetryingReads(inner, RecordedWaiting()).get(PLACE, b"a")
    assert inner.calls == 1


def test_the_rest_passes_through() -> None:
    inner = MemoryStore()
    store = RetryingReads(inner, RecordedWaiting())
    store.put_many([(PLACE, b"a", b"x")])
    assert store.epoch() == inner.epoch() == 1
    assert store.capabilities == inner.capabilities
    store.flush(1)
    store.close()
    with pytest.raises(StoreClosed):
        inner.epoch()
