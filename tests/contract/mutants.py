"""Memory stores with one planted fault each; see `test_mutants`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from time import sleep

import msgspec
import pytest

from lochan.kv.defaults import is_as_expected
from lochan.kv.store import (
    ABSENT,
    PRESENT,
    Adds,
    Entry,
    Expected,
    Item,
    Lost,
    Name,
    Outcome,
    Page,
    Partition,
    SetIf,
    Stamp,
    Store,
    Won,
)
from lochan.process import after_fork
from lochan.stores.memory.store import MemoryStore
from lochan.testing.contracts import PLAIN_CONTRACTS, ForkRefusedContract


class BlindSet(MemoryStore):
    def _set_if(self, condition: SetIf) -> Outcome:
        stamp = self._new_stamp()
        self._put(condition.partition, Entry(condition.key, condition.value, stamp))
        return Won(stamp)


class SetThatWritesNothing(MemoryStore):
    def _set_if(self, condition: SetIf) -> Outcome:
        if condition.expected is not ABSENT:
            return super()._set_if(condition)
        return Won(self._new_stamp())


class ReusedStamps(MemoryStore):
    def _put(self, partition: Partition, entry: Entry) -> None:
        before = self._find(partition, entry.key)
        number = 1 if before is None else int.from_bytes(before.stamp, "big") + 1
        stamp = Stamp(number.to_bytes(8, "big"))
        super()._put(partition, Entry(entry.key, entry.value, stamp, entry.half_day))

    def _set_if(self, condition: SetIf) -> Outcome:
        outcome = super()._set_if(condition)
        if isinstance(outcome, Lost):
            return outcome
        row = self._find(condition.partition, condition.key)
        return Lost(None) if row is None else Won(row.stamp)


class StampOfTheValue(ReusedStamps):
    def _put(self, partition: Partition, entry: Entry) -> None:
        stamp = Stamp(sha256(entry.value).digest()[:8])
        MemoryStore._put(self, partition, Entry(entry.key, entry.value, stamp, entry.half_day))


class ScanThatSkips(MemoryStore):
    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        page = super().scan(partition, start, end, limit)
        if page.next_start is None:
            return page
        return Page(page.entries, page.next_start + b"\0")


class ScanThatRepeats(MemoryStore):
    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        page = super().scan(partition, start, end, limit)
        if page.next_start is None or limit == 1:
            return page
        return Page(page.entries, page.entries[-1].key)


class ScanPastTheEnd(MemoryStore):
    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        return super().scan(
            partition, start, end + b"\0" if type(end) is bytes and end else end, limit
        )


class ScanByPrefix(MemoryStore):
    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        page = super().scan(partition, start, end, limit)
        if page.entries or page.next_start:
            return page
        longer = [other for other in list(self._tables) if other.startswith(partition)]
        return super().scan(longer[0], start, end, limit) if longer else page


class EagerApply(MemoryStore):
    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        outcome = super().apply(adds, condition)
        self.add_many(adds)
        return outcome


class AddThatOverwrites(MemoryStore):
    def _add(self, adds: Adds) -> None:
        for partition, key, value in adds.items:
            self._put(partition, Entry(key, value, self._new_stamp(), adds.half_day))


class AddThatForgetsToRenew(MemoryStore):
    def _add(self, adds: Adds) -> None:
        new = [item for item in adds.items if self._find(item[0], item[1]) is None]
        super()._add(Adds(new, adds.half_day))


class RenewalWithTheOldStamp(MemoryStore):
    def _put(self, partition: Partition, entry: Entry) -> None:
        before = self._find(partition, entry.key)
        if before is not None and entry.half_day > before.half_day > 0:
            entry = Entry(entry.key, entry.value, before.stamp, entry.half_day)
        super()._put(partition, entry)


class BulkInTheWrongOrder(MemoryStore):
    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        try:
            return super().get_many(sorted(names))
        except TypeError:
            return super().get_many(names)


class PutThatKeepsTheFirst(MemoryStore):
    def put_many(self, items: Sequence[Item]) -> None:
        super().put_many(items[::-1])


class DropOfTheNeighbours(MemoryStore):
    def drop_partition(self, partition: Partition) -> None:
        super().drop_partition(partition)
        for other in [other for other in self._tables if other.startswith(partition)]:
            super().drop_partition(other)


class UncheckedArguments(MemoryStore):
    def put_many(self, items: Sequence[Item]) -> None:
        with self._lock:
            self._check_open()
            for partition, key, value in items:
                self._put(partition, Entry(key, value, self._new_stamp()))


class OpenAfterClose(MemoryStore):
    def epoch(self) -> int:
        return self._writes


class ReadThenWrite(MemoryStore):
    def _set_if(self, condition: SetIf) -> Outcome:
        current = self._find(condition.partition, condition.key)
        self._lock.release()
        sleep(0)  # lets another thread run
        self._lock.acquire()
        if is_as_expected(condition.expected, None if current is None else current.stamp):
            seen = ABSENT if current is None else PRESENT
            return super()._set_if(msgspec.structs.replace(condition, expected=seen))
        return Lost(current or ABSENT)


class EpochThatNeverGrows(MemoryStore):
    def epoch(self) -> int:
        super().epoch()
        return 0


class AnyStampDeletes(MemoryStore):
    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        outcome = super().delete_if(partition, key, expected)
        if isinstance(outcome, Lost) and isinstance(outcome.current, Entry):
            self.delete(partition, key)
            return Won(outcome.current.stamp)
        return outcome


class EmptyIsAbsent(MemoryStore):
    def get(self, partition: Partition, key: bytes) -> Entry | None:
        entry = super().get(partition, key)
        return entry if entry and entry.value else None


class LostWithTheWrongRow(MemoryStore):
    def _set_if(self, condition: SetIf) -> Outcome:
        outcome = super()._set_if(condition)
        if isinstance(outcome, Lost) and isinstance(outcome.current, Entry):
            return Lost(Entry(condition.key, condition.value, outcome.current.stamp))
        return outcome


class WorksInAFork(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        after_fork(self, lambda _: None)


def mutant_class(name: str) -> type:
    """Builds the test class of one mutant."""
    mutant = globals()[name]

    class TestMutant(ForkRefusedContract, *PLAIN_CONTRACTS):  # type: ignore[misc]
        @pytest.fixture
        def store(self) -> Iterator[Store]:
            store = mutant()
            yield store
            store.close()

    return TestMutant
