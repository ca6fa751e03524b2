"""The plan sees every call before it happens, and what it decides is what happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.base.errors import Bug, Unavailable, Unknown
from lochan.kv.store import ABSENT, PRESENT, Adds, Lost, Partition, SetIf, Won
from lochan.stores.memory.store import MemoryStore
from lochan.testing.faults import (
    BATCH_FAULTS,
    OK,
    READ_FAULTS,
    WRITE_FAULTS,
    Fault,
    FaultKind,
    FaultyStore,
    ListedFaults,
    PlannedCall,
    SimulatedCrash,
)

PLACE = Partition(b"place")
OBJECTS = [(PLACE, b"o%d" % number, b"body") for number in range(3)]


class Seen:
    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []

    def decide(self, call: PlannedCall) -> Fault:
        self.calls.append(call)
        return OK


def planned(faults: dict[int, Fault], *, atomic_apply: bool | None = None) -> FaultyStore:
    return FaultyStore(MemoryStore(), ListedFaults(faults), atomic_apply=atomic_apply)


def test_the_plan_sees_operation_place_and_ordinal() -> None:
    seen = Seen()
    store = FaultyStore(MemoryStore(), seen, atomic_apply=False)
    store.get(PLACE, b"a")
    store.get_many(names := [(PLACE, b"b"), (PLACE, b"c")])
    store.get_many([])
    store.put_many(items := [(PLACE, b"d", b""), (PLACE, b"e", b"")])
    store.add_many(adds := Adds(OBJECTS, 1))
    store.add_many(Adds([], 1))
    store.set_if(PLACE, b"f", b"", ABSENT)
    store.delete(PLACE, b"g")
    store.delete_if(PLACE, b"h", PRESENT)
    store.scan(PLACE, b"i", None, 1)
    store.apply(adds, row := SetIf(PLACE, b"j", b"", ABSENT))
    store.hold(PLACE, b"k")
    store.drop_partition(PLACE)
    store.flush(epoch := store.epoch())
    assert seen.calls == [
        PlannedCall(0, "get", PLACE, b"a", 1, READ_FAULTS, (PLACE, b"a")),
        PlannedCall(1, "get_many", PLACE, b"b", 2, READ_FAULTS, (names,)),
        PlannedCall(2, "get_many", None, None, 0, READ_FAULTS, ([],)),
        PlannedCall(3, "put_many", PLACE, b"d", 2, BATCH_FAULTS, (items,)),
        PlannedCall(4, "add_many", PLACE, b"o0", 3, BATCH_FAULTS, (adds,)),
        PlannedCall(5, "add_many", None, None, 0, BATCH_FAULTS, (Adds([], 1),)),
        PlannedCall(6, "set_if", PLACE, b"f", 1, WRITE_FAULTS, (PLACE, b"f", b"", ABSENT)),
        PlannedCall(7, "delete", PLACE, b"g", 1, WRITE_FAULTS, (PLACE, b"g")),
        PlannedCall(8, "delete_if", PLACE, b"h", 1, WRITE_FAULTS, (PLACE, b"h", PRESENT)),
        PlannedCall(9, "scan", PLACE, b"i", 1, READ_FAULTS, (PLACE, b"i", None, 1)),
        PlannedCall(10, "apply", PLACE, b"j", 4, BATCH_FAULTS, (adds, row)),
        PlannedCall(11, "hold", PLACE, b"k", 1, READ_FAULTS, (PLACE, b"k")),
        PlannedCall(12, "drop_partition", PLACE, None, 1, WRITE_FAULTS, (PLACE,)),
        PlannedCall(13, "flush", None, None, 0, READ_FAULTS, (epoch,)),
    ]
    assert store.calls == 14


def test_a_late_write_arrives_before_the_nth_following_call() -> None:
    for calls in (1, 2, 5):
        store = planned({0: Fault(FaultKind.LATE, calls)})
        with pytest.raises(Unknown):
            store.set_if(PLACE, b"a", b"late", ABSENT)
        for _ in range(calls - 1):
            assert store.get(PLACE, b"a") is None
        assert store.late_writes == 1
        entry = store.get(PLACE, b"a")
        assert entry is not None
        assert entry.value == b"late"
        assert store.late_writes == 0


def test_late_writes_arrive_in_the_order_of_their_turn() -> None:
    store = planned({0: Fault(FaultKind.LATE, 4), 1: Fault(FaultKind.LATE, 1)})
    for value in (b"slow", b"quick"):
        with pytest.raises(Unknown):
            store.put_many([(PLACE, b"a", value)])
    values = []
    for _ in range(3):
        entry = store.get(PLACE, b"a")
        values.append(entry and entry.value)
    assert values == [b"quick", b"quick", b"slow"]


def test_a_late_write_meets_the_state_of_its_moment() -> None:
    store = planned({0: Fault(FaultKind.LATE, 2)})
    with pytest.raises(Unknown):
        store.apply(Adds(OBJECTS, 1), SetIf(PLACE, b"row", b"mine", ABSENT))
    assert isinstance(store.set_if(PLACE, b"row", b"theirs", ABSENT), Won)
    found = store.get_many([(PLACE, b"row"), (PLACE, b"o0")])
    assert found[0] is not None
    assert found[0].value == b"theirs"
    assert found[1] is None, "an atomic apply that lost leaves no objects, late or not"


def test_settle_carries_out_everything_and_close_nothing() -> None:
    store = planned({0: Fault(FaultKind.LATE, 9), 1: Fault(FaultKind.LATE, 9)})
    for key in (b"a", b"b"):
        with pytest.raises(Unknown):
            store.put_many([(PLACE, key, b"x")])
    store.settle()
    assert all(store.get_many([(PLACE, b"a"), (PLACE, b"b")]))
    inner = MemoryStore()
    store = FaultyStore(inner, ListedFaults({0: Fault(FaultKind.LATE, 9)}))
    with pytest.raises(Unknown):
        store.put_many([(PLACE, b"a", b"x")])
    store.close()
    assert store.late_writes == 0


@pytest.mark.parametrize("kind", [FaultKind.TORN, FaultKind.PARTIAL])
@pytest.mark.parametrize("kept", range(4))
def test_a_torn_batch_keeps_its_first_items(kind: FaultKind, kept: int) -> None:
    error = SimulatedCrash if kind is FaultKind.TORN else Unknown
    row = SetIf(PLACE, b"row", b"x", ABSENT)
    batches: list[Callable[[FaultyStore], object]] = [
        lambda store: store.add_many(Adds(OBJECTS, 1)),
        lambda store: store.put_many(OBJECTS),
        lambda store: store.apply(Adds(OBJECTS, 1), row),
    ]
    for write in batches:
        store = planned({0: Fault(kind, kept)}, atomic_apply=False)
        with pytest.raises(error):
            write(store)
        keys = [entry.key for entry in store.scan(PLACE, b"", None, 10).entries]
        assert keys == [b"o0", b"o1", b"o2"][:kept]


def test_a_plan_cannot_do_the_impossible() -> None:
    with pytest.raises(Bug):
        planned({0: Fault(FaultKind.LOST_REPLY)}).get(PLACE, b"a")
    with pytest.raises(Bug):
        planned({0: Fault(FaultKind.TORN, 1)}).apply(
            Adds(OBJECTS, 1), SetIf(PLACE, b"row", b"x", ABSENT)
        )
    with pytest.raises(Bug):
        planned({0: Fault(FaultKind.LATE, 0)}).delete(PLACE, b"a")
    within = planned({}, atomic_apply=False)
    with pytest.raises(Bug):
        FaultyStore(within, ListedFaults({}), atomic_apply=True)


def test_a_store_whose_apply_is_two_calls_reports_it_and_adds_objects_first() -> None:
    store = planned({}, atomic_apply=False)
    assert not store.capabilities.atomic_apply
    assert planned({}).capabilities.atomic_apply
    outcome = store.apply(Adds(OBJECTS, 1), SetIf(PLACE, b"row", b"x", PRESENT))
    assert outcome == Lost(ABSENT)
    assert len(store.scan(PLACE, b"", None, 10).entries) == 3


def test_a_failed_flush_and_crashes_around_reads() -> None:
    with pytest.raises(Unavailable):
        planned({0: Fault(FaultKind.NOT_APPLIED)}).flush(0)
    for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
        with pytest.raises(SimulatedCrash):
            planned({0: Fault(kind)}).scan(PLACE, b"", None, 1)
    assert not issubclass(SimulatedCrash, Exception)
