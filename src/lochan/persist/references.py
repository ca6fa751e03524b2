"""Reference rows: read them with their stamps, write them by compare-and-swap only."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import InstanceId
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow, decode_row, encode_row
from lochan.kv.store import (
    ABSENT,
    Entry,
    Expected,
    Hold,
    Kind,
    Outcome,
    SetIf,
    Stamp,
    Store,
    partition,
)


class StampedRow(msgspec.Struct, frozen=True, gc=False):
    """A row and the stamp under which it was read or written."""

    row: ReferenceRow
    stamp: Stamp


class References:
    """The reference rows of one repository."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        self._store = store
        self._place = partition(instance, Kind.REFERENCES)

    def fetch(self, name: RefName) -> StampedRow | None:
        """Returns a row, deleted or not; None if there is none."""
        return read_row(self._store.get(self._place, name.encode()))

    def hold(self, name: RefName) -> Hold:
        """Reads a row in order to write it next, locked where the store can."""
        return self._store.hold(self._place, name.encode())

    def fetch_many(self, names: Sequence[RefName]) -> list[StampedRow | None]:
        """Returns rows in the order of their names, in as few round trips as the store allows."""
        return [read_row(entry) for entry in self._entries(names)]

    def find_many(self, names: Sequence[RefName]) -> list[StampedRow | NewerFormat | None]:
        """Returns rows as `fetch_many` does; one of a newer format as the error it would raise."""
        rows: list[StampedRow | NewerFormat | None] = []
        for entry in self._entries(names):
            try:
                rows.append(read_row(entry))
            except NewerFormat as error:
                rows.append(error)
        return rows

    def _entries(self, names: Sequence[RefName]) -> list[Entry | None]:
        step = self._store.capabilities.batch_items_max
        entries: list[Entry | None] = []
        for start in range(0, len(names), step):
            wanted = [(self._place, name.encode()) for name in names[start : start + step]]
            entries += self._store.get_many(wanted)
        return entries

    def update(self, row: ReferenceRow, expected: StampedRow | None) -> Outcome:
        """Writes a row if it is still as it was read; None expects that there is none."""
        condition = self.condition(row, expected)
        return self._store.set_if(
            condition.partition, condition.key, condition.value, condition.expected
        )

    def condition(self, row: ReferenceRow, expected: StampedRow | None) -> SetIf:
        """Returns the same as a condition of `Store.apply`."""
        wanted: Expected = ABSENT if expected is None else expected.stamp
        return SetIf(self._place, row.name.encode(), encode_row(row), wanted)

    def purge(self, found: StampedRow) -> Outcome:
        """Removes a tombstone; only the collector may, under its grace."""
        return self._store.delete_if(self._place, found.row.name.encode(), found.stamp)


def read_row(entry: Entry | None) -> StampedRow | None:
    """Decodes an entry of the store; an error names the reference."""
    if entry is None:
        return None
    try:
        return StampedRow(decode_row(entry.value), entry.stamp)
    except (Corrupt, NewerFormat) as error:
        name = entry.key.decode("utf-8", "replace")
        raise type(error)(f"the row of the reference {name!r}: {error.message}") from None
