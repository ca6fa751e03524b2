"""The observer hears of every call, with exact numbers, and changes nothing."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.kv.observe import ObservedCall, ObservedStore
from lochan.kv.store import ABSENT, PRESENT, Adds, Entry, Partition, SetIf
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import Fault, FaultKind, FaultyStore, ListedFaults
from lochan.testing.ports import ManualClock

PLACE = Partition(b"place")


class Notes:
    def __init__(self) -> None:
        self.calls: list[ObservedCall] = []

    def observe(self, call: ObservedCall) -> None:
        self.calls.append(call)


class SlowStore(MemoryStore):
    """Takes three microseconds for a get."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        self._clock.advance_us(3)
        return super().get(partition, key)


def test_every_call_is_reported_with_keys_bytes_outcome_and_duration() -> None:
    clock, notes = ManualClock(), Notes()
    store = ObservedStore(SlowStore(clock), notes, clock)
    store.put_many([(PLACE, b"a", b"12"), (PLACE, b"b", b"345")])
    store.add_many(Adds([(PLACE, b"c", b"6")], 1))
    store.get(PLACE, b"a")
    store.get(PLACE, b"absent")
    store.get_many([(PLACE, b"a"), (PLACE, b"b"), (PLACE, b"absent")])
    store.set_if(PLACE, b"a", b"four", PRESENT)
    store.set_if(PLACE, b"a", b"four", ABSENT)
    store.scan(PLACE, b"", None, 10)
    store.apply(Adds([(PLACE, b"d", b"7")], 1), SetIf(PLACE, b"a", b"89", PRESENT))
    store.delete_if(PLACE, b"a", PRESENT)
    store.delete(PLACE, b"b")
    store.drop_partition(PLACE)
    store.flush(store.epoch())
    store.close()
    assert notes.calls == [
        ObservedCall("put_many", 2, 5, 0, "ok", 0),
        ObservedCall("add_many", 1, 1, 0, "ok", 0),
        ObservedCall("get", 1, 0, 2, "ok", 3_000),
        ObservedCall("get", 1, 0, 0, "ok", 3_000),
        ObservedCall("get_many", 3, 0, 5, "ok", 0),
        ObservedCall("set_if", 1, 4, 0, "won", 0),
        ObservedCall("set_if", 1, 4, 0, "lost", 0),
        ObservedCall("scan", 1, 0, 8, "ok", 0),
        ObservedCall("apply", 2, 3, 0, "won", 0),
        ObservedCall("delete_if", 1, 0, 0, "won", 0),
        ObservedCall("delete", 1, 0, 0, "ok", 0),
        ObservedCall("drop_partition", 1, 0, 0, "ok", 0),
        ObservedCall("flush", 0, 0, 0, "ok", 0),
        ObservedCall("close", 0, 0, 0, "ok", 0),
    ]


def test_failed_calls_are_reported_by_their_kind_and_still_fail() -> None:
    notes = Notes()
    plan = ListedFaults({0: Fault(FaultKind.NOT_APPLIED)})
    store = ObservedStore(FaultyStore(MemoryStore(), plan), notes, ManualClock())
    with pytest.raises(Unavailable):
        store.get(PLACE, b"a")
    with pytest.raises(Invalid):
        store.get(PLACE, b"")
    assert [call.outcome for call in notes.calls] == ["unavailable", "invalid"]


def test_the_apply_of_a_hold_is_reported() -> None:
    notes = Notes()
    store = ObservedStore(MemoryStore(), notes, ManualClock())
    held = store.hold(PLACE, b"a")
    assert held.entry is None
    held.apply(Adds([], 1), SetIf(PLACE, b"a", b"12", ABSENT))
    held.release()
    reported = [(call.operation, call.outcome) for call in notes.calls]
    assert reported == [("hold", "ok"), ("apply", "won")]


def test_counts_add_up_and_start_again() -> None:
    counts = CallCounts()
    store = ObservedStore(MemoryStore(), counts, ManualClock())
    store.put_many([(PLACE, b"a", b"12"), (PLACE, b"b", b"345")])
    store.get_many([(PLACE, b"a"), (PLACE, b"b")])
    store.get_many([(PLACE, b"a")])
    assert counts.calls == {"put_many": 1, "get_many": 2}
    assert counts.keys == {"put_many": 2, "get_many": 3}
    assert counts.bytes_in == {"put_many": 5, "get_many": 0}
    assert counts.bytes_out == {"put_many": 0, "get_many": 7}
    assert counts.outcomes == {("put_many", "ok"): 1, ("get_many", "ok"): 2}
    counts.reset()
    assert not counts.calls
    assert not counts.outcomes
