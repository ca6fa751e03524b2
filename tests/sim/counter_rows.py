"""A new kind of row, as small as one can be: counters that several servers add to."""

from typing import Literal

import msgspec

from lochan.base.ids import ROOT_INSTANCE
from lochan.base.ports import Random
from lochan.codec.forms import RowForm
from lochan.kv.store import Kind, Store, partition
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write


class Counter(msgspec.Struct, frozen=True, array_like=True):
    """A sum, and the operation ids of all additions to it."""

    format: Literal[1]
    name: str
    total: int = 0
    operations: tuple[bytes, ...] = ()


class Counters(RowTable[Counter]):
    """The counters of one store."""

    def __init__(self, store: Store) -> None:
        place = partition(ROOT_INSTANCE, Kind.META, b"counters")
        super().__init__(store, place, RowForm(Counter, "counter"), lambda row: row.name.encode())

    def add(self, name: str, number: int, random: Random, retry: Retry) -> int:
        """Adds a number once; returns the new total."""
        operation = random.random_bytes(16)

        def decide(found: Stamped[Counter] | None) -> Write[Counter, int] | Done[int]:
            row = Counter(1, name) if found is None else found.row
            total = row.total + number
            return Write(Counter(1, name, total, (*row.operations, operation)), total)

        def find_done(write: Write[Counter, int]) -> Done[int] | None:
            return Done(write.answer) if self.contains(write.row) else None

        doubt = Doubt("the number was added", "read the counter")
        return self.swap(name, decide, retry, doubt, find_done=find_done)

    def contains(self, written: Counter) -> bool:
        """Returns whether a row that was written has taken effect."""
        found = self.fetch(written.name)
        return found is not None and written.operations[-1] in found.row.operations
