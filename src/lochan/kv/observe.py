"""A wrapper that reports every call to an observer: operation, size, outcome, duration.

It changes nothing: not the arguments, not the outcome, not the number of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from lochan.base.errors import LochanError
from lochan.base.ports import Clock
from lochan.kv.store import (
    Adds,
    Capabilities,
    Entry,
    Expected,
    Hold,
    Item,
    Lost,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Store,
)
from lochan.kv.walk import WalkCall, WalkPage, find_walk

_Result = TypeVar("_Result")


class ObservedCall(msgspec.Struct, frozen=True, gc=False):
    """One call that has ended.

    `outcome` is ok, won, lost, or the kind of the error; `broken` for an error that is not ours.
    """

    operation: str
    keys: int
    bytes_in: int
    bytes_out: int
    outcome: str
    duration_ns: int


class Observer(Protocol):
    """Receives a report of every call."""

    def observe(self, call: ObservedCall) -> None:
        """Is called after each call has ended; must not raise."""
        ...


class ObservedStore:
    """A Store that reports every call to an observer."""

    def __init__(self, store: Store, observer: Observer, clock: Clock) -> None:
        self._store = store
        self._observer = observer
        self._clock = clock

    @property
    def capabilities(self) -> Capabilities:
        """Those of the wrapped store."""
        return self._store.capabilities

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Passes on."""
        return self._report("get", 1, 0, lambda: self._store.get(partition, key))

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Passes on."""
        return self._report("get_many", len(names), 0, lambda: self._store.get_many(names))

    def add_many(self, adds: Adds) -> None:
        """Passes on."""
        items = adds.items
        self._report("add_many", len(items), _size(items), lambda: self._store.add_many(adds))

    def put_many(self, items: Sequence[Item]) -> None:
        """Passes on."""
        self._report("put_many", len(items), _size(items), lambda: self._store.put_many(items))

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Passes on."""
        return self._report(
            "set_if", 1, len(value), lambda: self._store.set_if(partition, key, value, expected)
        )

    def delete(self, partition: Partition, key: bytes) -> None:
        """Passes on."""
        self._report("delete", 1, 0, lambda: self._store.delete(partition, key))

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Passes on."""
        return self._report(
            "delete_if", 1, 0, lambda: self._store.delete_if(partition, key, expected)
        )

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Passes on."""
        return self._report("scan", 1, 0, lambda: self._store.scan(partition, start, end, limit))

    @property
    def walk(self) -> WalkCall | None:
        """The ability of the wrapped store to read across partitions, reported; None without."""
        inner = find_walk(self._store)
        if inner is None:
            return None

        def walk(prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
            return self._report("walk", 1, 0, lambda: inner(prefix, cursor, limit))

        return walk

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on."""
        return self._report_apply(self._store, adds, condition)

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Passes on."""
        size = sum(_size(adds.items) + len(condition.value) for adds, condition in changes)
        keys = sum(len(adds.items) + 1 for adds, _ in changes)
        return self._report("apply_each", keys, size, lambda: self._store.apply_each(changes))

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Passes on; the `apply` of the hold is reported as an `apply`."""
        held = self._report("hold", 1, 0, lambda: self._store.hold(partition, key))
        return _ObservedHold(held, self._report_apply)

    def drop_partition(self, partition: Partition) -> None:
        """Passes on."""
        self._report("drop_partition", 1, 0, lambda: self._store.drop_partition(partition))

    def epoch(self) -> int:
        """Passes on without a report: it is a number in memory, not a call to a database."""
        return self._store.epoch()

    def flush(self, epoch: int) -> None:
        """Passes on."""
        self._report("flush", 0, 0, lambda: self._store.flush(epoch))

    def close(self) -> None:
        """Passes on."""
        self._report("close", 0, 0, self._store.close)

    def _report_apply(self, held: Store | Hold, adds: Adds, condition: SetIf) -> Outcome:
        size = _size(adds.items) + len(condition.value)
        return self._report("apply", len(adds.items) + 1, size, lambda: held.apply(adds, condition))

    def _report(
        self, operation: str, keys: int, bytes_in: int, call: Callable[[], _Result]
    ) -> _Result:
        started = self._clock.monotonic_ns()
        outcome = "broken"
        bytes_out = 0
        try:
            result = call()
            outcome = _outcome(result)
            bytes_out = _bytes_out(result)
            return result
        except LochanError as error:
            outcome = error.kind
            raise
        finally:
            duration_ns = self._clock.monotonic_ns() - started
            self._observer.observe(
                ObservedCall(operation, keys, bytes_in, bytes_out, outcome, duration_ns)
            )


class _ObservedHold:
    """A hold whose `apply` is reported."""

    def __init__(self, held: Hold, report_apply: Callable[[Hold, Adds, SetIf], Outcome]) -> None:
        self._held = held
        self._apply = report_apply
        self.entry = held.entry
        """The row as it was read."""

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on."""
        return self._apply(self._held, adds, condition)

    def release(self) -> None:
        """Passes on."""
        self._held.release()


def _size(items: Sequence[Item]) -> int:
    return sum(len(value) for _, _, value in items)


def _outcome(result: object) -> str:
    if isinstance(result, Outcome):
        return "lost" if isinstance(result, Lost) else "won"
    return "ok"


def _bytes_out(result: object) -> int:
    if isinstance(result, Entry):
        return len(result.value)
    if isinstance(result, Page):
        return sum(len(entry.value) for entry in result.entries)
    if isinstance(result, WalkPage):
        return sum(len(entry.value) for _, entry in result.rows)
    if isinstance(result, list):
        return sum(len(entry.value) for entry in result if isinstance(entry, Entry))
    return 0
