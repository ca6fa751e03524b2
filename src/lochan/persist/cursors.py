"""The rows of durable cursors: subscribers in the root instance, cursors in each repository.

A repository has one partition for all subscribers. A cursor is under the name of its subscriber. A
position is under that name, NUL, the generation of its cursor, and the name of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lochan.base.checks import check
from lochan.base.ids import ROOT_INSTANCE, InstanceId
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.cursors import (
    CURSOR_FORM,
    POSITION_FORM,
    SUBSCRIBER_FORM,
    CursorRow,
    PositionRow,
    ReplayPosition,
    SubscriberRow,
)
from lochan.codec.forms import Row, encode_row
from lochan.kv.store import Item, Kind, Store, partition
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, RowTable, Stamped, Write, scan_all

GENERATION_BYTES: Final = 8

_MOVED: Final = Doubt("a cursor of events was moved", "it is read again")


class SubscriberRows(RowTable[SubscriberRow]):
    """The subscribers of one store."""

    def __init__(self, store: Store) -> None:
        place = partition(ROOT_INSTANCE, Kind.CURSORS)
        super().__init__(store, place, SUBSCRIBER_FORM, lambda row: row.name.encode())


class CursorRows(RowTable[CursorRow]):
    """The cursors of one repository, one for each subscriber."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        place = partition(instance, Kind.CURSORS)
        super().__init__(store, place, CURSOR_FORM, lambda row: row.subscriber.encode())


class Positions(RowTable[PositionRow]):
    """The positions of one generation of one cursor."""

    def __init__(
        self, store: Store, instance: InstanceId, subscriber: str, generation: bytes
    ) -> None:
        place = partition(instance, Kind.CURSORS)
        super().__init__(store, place, POSITION_FORM, _position_key)
        self._subscriber = subscriber
        self._generation = generation
        self._prefix = _prefix(subscriber, generation)

    def key(self, name: RefName) -> bytes:
        """Returns the key of the row of a name."""
        return self._prefix + name.encode()

    def find(self, name: RefName) -> PositionRow | None:
        """Returns the position of a name, None if it has none of its own."""
        found = self.fetch(self.key(name))
        return None if found is None else found.row

    def find_many(self, names: Sequence[RefName]) -> Mapping[RefName, ReplayPosition]:
        """Returns the positions of those of the names that have one."""
        found = self.fetch_many([self.key(name) for name in names])
        return {
            name: each.row.at for name, each in zip(names, found, strict=True) if each is not None
        }

    def row_of(self, name: RefName, at: ReplayPosition, fence: int) -> PositionRow:
        """Returns the row of a position."""
        return PositionRow(1, self._subscriber, self._generation, name, at, fence)

    def store_many(self, rows: Sequence[PositionRow]) -> None:
        """Writes rows of a generation that no cursor has yet; idempotent."""
        step = self._store.capabilities.batch_items_max
        for start in range(0, len(rows), step):
            batch = rows[start : start + step]
            items: list[Item] = [(self._place, self.key_of(row), encode_row(row)) for row in batch]
            self._store.put_many(items)

    def drop(self) -> None:
        """Removes all positions of this generation; it must be in no cursor any more."""
        check(len(self._generation) == GENERATION_BYTES, "a generation has positions of its own")
        end = self._prefix + b"\xff"
        for entry in scan_all(self._store, self._place, self._prefix, end, PAGE_ENTRIES_MAX):
            self._store.delete(self._place, entry.key)


def exchange(
    table: RowTable[Row], key: str | bytes, old: Row | None, new: Row, retry: Retry
) -> bool:
    """Replaces a row that is still as it was read; returns whether the row is the new one now.

    Rows are compared as values: they have the fence of their writer, and only one worker has it.
    """

    def decide(found: Stamped[Row] | None) -> Write[Row, bool] | Done[bool]:
        row = None if found is None else found.row
        if row == new:
            return Done(True)
        return Write(new, True) if row == old else Done(False)

    return table.swap(key, decide, retry, _MOVED)


def _prefix(subscriber: str, generation: bytes) -> bytes:
    return subscriber.encode() + b"\0" + generation


def _position_key(row: PositionRow) -> bytes:
    return _prefix(row.subscriber, row.generation) + row.reference.encode()
