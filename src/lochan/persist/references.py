"""The rows of references: how they are read, held and found by name."""

from __future__ import annotations

from collections.abc import Sequence

from lochan.base.errors import NewerFormat
from lochan.base.ids import InstanceId
from lochan.base.names import RefName
from lochan.codec.rows import REFERENCE_FORM, ReferenceRow
from lochan.kv.store import Hold, Kind, Store, partition
from lochan.persist.rows import RowTable, Stamped

StampedRow = Stamped[ReferenceRow]
"""The row of a reference and its stamp."""


class References(RowTable[ReferenceRow]):
    """The reference rows of one repository, deleted ones included."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        place = partition(instance, Kind.REFERENCES)
        super().__init__(store, place, REFERENCE_FORM, lambda row: row.name.encode())

    def hold(self, name: RefName) -> Hold:
        """Reads a row in order to write it next, locked where the store can."""
        return self._store.hold(self._place, name.encode())

    def find_many(self, names: Sequence[RefName]) -> list[StampedRow | NewerFormat | None]:
        """Returns rows as `fetch_many` does; one of a newer format as the error it would raise."""
        rows: list[StampedRow | NewerFormat | None] = []
        for entry in self._entries(names):
            try:
                rows.append(None if entry is None else self.read(entry))
            except NewerFormat as error:
                rows.append(error)
        return rows
