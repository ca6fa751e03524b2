"""A wrapper that injects the faults of networks, machines and power cuts into a store.

Deterministic and without threads: before each call a plan gets a description of the call and
returns a fault. Faults by what the store does and what the caller gets:

    OK             carried out, answered
    NOT_APPLIED    not carried out, Unavailable
    LOST_REPLY     carried out, then Unknown
    LATE           Unknown now; carried out before the n-th following call, on the state it finds
    PARTIAL        the first n objects of a batch that is not atomic, then Unknown
    CRASH_BEFORE   not carried out, SimulatedCrash
    CRASH_AFTER    carried out, then SimulatedCrash
    TORN           the first n objects of a batch that is not atomic, then SimulatedCrash

Only OK, NOT_APPLIED and the two crashes can happen to a read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol, TypeVar

import msgspec

from lochan.base.checks import check
from lochan.base.errors import Bug, Unavailable, Unknown
from lochan.kv.defaults import PlainHold, apply_in_turn
from lochan.kv.store import (
    Adds,
    Capabilities,
    Entry,
    Expected,
    Hold,
    Item,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Store,
)
from lochan.kv.walk import WalkCall, WalkPage, find_walk

_Result = TypeVar("_Result")


class SimulatedCrash(BaseException):
    """The process dies here; not an Exception, so that no handler catches it."""


class FaultKind(Enum):
    """What may happen to a call; see the head of this module."""

    OK = "ok"
    NOT_APPLIED = "not_applied"
    LOST_REPLY = "lost_reply"
    LATE = "late"
    PARTIAL = "partial"
    CRASH_BEFORE = "crash_before"
    CRASH_AFTER = "crash_after"
    TORN = "torn"


class Fault(msgspec.Struct, frozen=True, gc=False):
    """One decision; `count` is the n of LATE (at least 1), PARTIAL and TORN (objects kept)."""

    kind: FaultKind
    count: int = 0


OK: Final = Fault(FaultKind.OK)

READ_FAULTS: Final = (
    FaultKind.OK,
    FaultKind.NOT_APPLIED,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
)
WRITE_FAULTS: Final = (*READ_FAULTS, FaultKind.LOST_REPLY, FaultKind.LATE)
BATCH_FAULTS: Final = (*WRITE_FAULTS, FaultKind.PARTIAL, FaultKind.TORN)


class PlannedCall(msgspec.Struct, frozen=True, gc=False):
    """The description of a call that a plan gets before the call is made.

    `partition` and `key` name the row of the condition for `apply`, the start of a scan, the first
    item of a bulk call (None if it is empty). `arguments` are those of the call.
    """

    ordinal: int
    operation: str
    partition: Partition | None
    key: bytes | None
    items: int
    possible: tuple[FaultKind, ...]
    arguments: tuple[object, ...] = ()


class Plan(Protocol):
    """Decides what happens to each call."""

    def decide(self, call: PlannedCall) -> Fault:
        """Returns one of the call's possible faults."""
        ...


class ListedFaults:
    """A plan by the ordinals of calls; all others are OK."""

    def __init__(self, faults: dict[int, Fault]) -> None:
        self._faults = faults

    def decide(self, call: PlannedCall) -> Fault:
        """Looks the call up."""
        return self._faults.get(call.ordinal, OK)


class _Late:
    """A late write."""

    def __init__(self, calls_left: int, carry_out: Callable[[], object]) -> None:
        self.calls_left = calls_left
        self.carry_out = carry_out


class FaultyStore:
    """A Store whose calls fail as a plan decides.

    With `atomic_apply=False` it also makes two calls of the store's atomic `apply`: objects first,
    then the row, as some networked stores do, so that batches can be torn.
    """

    def __init__(self, store: Store, plan: Plan, *, atomic_apply: bool | None = None) -> None:
        can = store.capabilities
        self._store = store
        self._plan = plan
        self._atomic = can.atomic_apply if atomic_apply is None else atomic_apply
        check(can.atomic_apply or not self._atomic, "a wrapper cannot make a store atomic")
        self._capabilities = msgspec.structs.replace(can, atomic_apply=self._atomic)
        self._calls = 0
        self._late: list[_Late] = []

    @property
    def capabilities(self) -> Capabilities:
        """Those of the wrapped store, except `atomic_apply`."""
        return self._capabilities

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._calls

    @property
    def late_writes(self) -> int:
        """The number of late writes that are not carried out yet."""
        return len(self._late)

    def settle(self) -> None:
        """Carries out all late writes, in the order in which they were sent."""
        late, self._late = self._late, []
        for write in late:
            write.carry_out()

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Reads; the plan decides what happens."""
        call = self._call("get", partition, key, 1, READ_FAULTS, (partition, key))
        return self._read(call, lambda: self._store.get(partition, key))

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Reads; the plan decides what happens."""
        partition, key = names[0] if names else (None, None)
        call = self._call("get_many", partition, key, len(names), READ_FAULTS, (names,))
        return self._read(call, lambda: self._store.get_many(names))

    def add_many(self, adds: Adds) -> None:
        """Writes; the plan decides what happens."""

        def add_some(count: int) -> None:
            self._store.add_many(Adds(adds.items[:count], adds.half_day))

        call = self._call("add_many", *_first(adds.items), len(adds.items), BATCH_FAULTS, (adds,))
        self._write(call, lambda: self._store.add_many(adds), add_some)

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes; the plan decides what happens."""

        def put_some(count: int) -> None:
            self._store.put_many(items[:count])

        call = self._call("put_many", *_first(items), len(items), BATCH_FAULTS, (items,))
        self._write(call, lambda: self._store.put_many(items), put_some)

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes; the plan decides what happens."""
        arguments = (partition, key, value, expected)
        call = self._call("set_if", partition, key, 1, WRITE_FAULTS, arguments)
        return self._write(call, lambda: self._store.set_if(partition, key, value, expected))

    def delete(self, partition: Partition, key: bytes) -> None:
        """Writes; the plan decides what happens."""
        call = self._call("delete", partition, key, 1, WRITE_FAULTS, (partition, key))
        self._write(call, lambda: self._store.delete(partition, key))

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Writes; the plan decides what happens."""
        arguments = (partition, key, expected)
        call = self._call("delete_if", partition, key, 1, WRITE_FAULTS, arguments)
        return self._write(call, lambda: self._store.delete_if(partition, key, expected))

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Reads; the plan decides what happens."""
        arguments = (partition, start, end, limit)
        call = self._call("scan", partition, start, 1, READ_FAULTS, arguments)
        return self._read(call, lambda: self._store.scan(partition, start, end, limit))

    @property
    def walk(self) -> WalkCall | None:
        """The ability of the wrapped store to read across partitions; None without."""
        inner = find_walk(self._store)
        if inner is None:
            return None

        def walk(prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
            call = self._call("walk", None, None, 1, READ_FAULTS, (prefix, cursor, limit))
            return self._read(call, lambda: inner(prefix, cursor, limit))

        return walk

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Writes; the plan decides what happens."""
        possible = WRITE_FAULTS if self._atomic else BATCH_FAULTS
        row, count = condition, len(adds.items) + 1
        call = self._call("apply", row.partition, row.key, count, possible, (adds, condition))

        def add_some(count: int) -> None:
            self._store.add_many(Adds(adds.items[:count], adds.half_day))

        return self._write(call, lambda: self._apply_within(adds, condition), add_some)

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Writes one after the other; the plan decides about each."""
        return apply_in_turn(self, changes)

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads without a lock: a plan is for one thread."""
        call = self._call("hold", partition, key, 1, READ_FAULTS, (partition, key))
        entry = self._read(call, lambda: self._store.get(partition, key))
        return PlainHold(self, entry)

    def drop_partition(self, partition: Partition) -> None:
        """Writes; the plan decides what happens."""
        call = self._call("drop_partition", partition, None, 1, WRITE_FAULTS, (partition,))
        self._write(call, lambda: self._store.drop_partition(partition))

    def epoch(self) -> int:
        """Passes on: it is no call to a database."""
        return self._store.epoch()

    def flush(self, epoch: int) -> None:
        """Flushes; the faults are those of a read, because a lost reply is a failed flush."""
        call = self._call("flush", None, None, 0, READ_FAULTS, (epoch,))
        self._read(call, lambda: self._store.flush(epoch))

    def close(self) -> None:
        """Closes the wrapped store; late writes are never carried out."""
        self._late.clear()
        self._store.close()

    def _apply_within(self, adds: Adds, condition: SetIf) -> Outcome:
        if self._atomic:
            return self._store.apply(adds, condition)
        self._store.add_many(adds)
        return self._store.set_if(
            condition.partition, condition.key, condition.value, condition.expected
        )

    def _call(
        self,
        operation: str,
        partition: Partition | None,
        key: bytes | None,
        items: int,
        possible: tuple[FaultKind, ...],
        arguments: tuple[object, ...],
    ) -> PlannedCall:
        """Carries out the late writes that are due, then numbers the call."""
        if self._late:
            self._carry_out_due()
        call = PlannedCall(self._calls, operation, partition, key, items, possible, arguments)
        self._calls += 1
        return call

    def _carry_out_due(self) -> None:
        for write in self._late:
            write.calls_left -= 1
        due = [write for write in self._late if write.calls_left <= 0]
        self._late = [write for write in self._late if write.calls_left > 0]
        for write in due:
            write.carry_out()

    def _decide(self, call: PlannedCall) -> Fault:
        fault = self._plan.decide(call)
        if fault.kind not in call.possible:
            raise Bug(f"{fault.kind} cannot happen to {call.operation}")
        return fault

    def _read(self, call: PlannedCall, carry_out: Callable[[], _Result]) -> _Result:
        fault = self._decide(call)
        return carry_out() if fault is OK else self._answer(call, fault, carry_out)

    def _write(
        self,
        call: PlannedCall,
        carry_out: Callable[[], _Result],
        carry_out_some: Callable[[int], None] | None = None,
    ) -> _Result:
        fault = self._decide(call)
        if fault is OK:
            return carry_out()
        if fault.kind is FaultKind.LATE:
            self._postpone(call, fault, carry_out)
            raise Unknown(f"planned late {call.operation}")
        if carry_out_some is not None and fault.kind in (FaultKind.PARTIAL, FaultKind.TORN):
            carry_out_some(fault.count)
            if fault.kind is FaultKind.TORN:
                raise SimulatedCrash(f"planned torn {call.operation}")
            raise Unknown(f"planned partial {call.operation}")
        return self._answer(call, fault, carry_out)

    def _postpone(self, call: PlannedCall, fault: Fault, carry_out: Callable[[], object]) -> None:
        """Keeps a write until later; a world of several wrappers keeps it for all of them."""
        check(fault.count >= 1, f"a late {call.operation} arrives before a following call")
        self._late.append(_Late(fault.count, carry_out))

    def _answer(self, call: PlannedCall, fault: Fault, carry_out: Callable[[], _Result]) -> _Result:
        if fault.kind is FaultKind.NOT_APPLIED:
            raise Unavailable(f"planned failure of {call.operation}")
        if fault.kind is FaultKind.CRASH_BEFORE:
            raise SimulatedCrash(f"planned crash before {call.operation}")
        result = carry_out()
        if fault.kind is FaultKind.CRASH_AFTER:
            raise SimulatedCrash(f"planned crash after {call.operation}")
        if fault.kind is FaultKind.LOST_REPLY:
            raise Unknown(f"planned lost reply of {call.operation}")
        return result


def _first(items: Sequence[Item]) -> tuple[Partition | None, bytes | None]:
    if not items:
        return None, None
    partition, key, _ = items[0]
    return partition, key
