"""The target of a copy: its mark, the position that is noted in it, and writes that are repeated.

Every write first reads the mark: a run that another one has replaced stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from lochan.base.errors import AlreadyExists, Conflict, TooLarge
from lochan.codec.forms import RowForm, encode_row
from lochan.kernel.repository import Ports
from lochan.kv.format import (
    FORMAT_KEY,
    FORMAT_PARTITION,
    CopyMark,
    check_mark,
    encode_copy_mark,
    find_copy_mark,
)
from lochan.kv.store import ABSENT, Adds, Entry, Item, Name, Partition, Store
from lochan.transfer.places import POSITION_KEY, ROOT_PLACES, rows_of
from lochan.transfer.retried import Retried, RetriedSource
from lochan.transfer.sources import StoreSource

_RUN_BYTES: Final = 16


class CopyPosition(msgspec.Struct, frozen=True, array_like=True):
    """How far objects are copied; `places` are partitions of rows that only a walk has found."""

    format: Literal[1] = 1
    instance: bytes = b""
    cursor: bytes = b""
    done: bool = False
    places: tuple[bytes, ...] = ()


_POSITION_FORM: Final = RowForm(CopyPosition, "position of a copy")


class CopyTarget:
    """The store that a copy fills; `source_id` is 16 bytes that name its source."""

    def __init__(self, store: Store, ports: Ports, source_id: bytes, retried: Retried) -> None:
        self.store = store
        self.rows = RetriedSource(StoreSource(store), retried)
        self.retried = retried
        self.position = CopyPosition()
        self._mark = CopyMark(source_id, ports.random.random_bytes(_RUN_BYTES))
        self._entry: Entry | None = None

    def begin(self) -> bool:
        """Takes the mark; returns whether an earlier run has begun this copy."""
        found = self._find(FORMAT_KEY)
        earlier = None if found is None else find_copy_mark(found)
        if earlier is None:
            if found is not None:
                check_mark(found)
            self._check_empty()
        elif earlier.source != self._mark.source:
            raise AlreadyExists(
                "the target is an unfinished copy of another store: name that store, or an empty "
                "target"
            )
        self._entry = self._swap(encode_copy_mark(self._mark), found)
        noted = self._find(POSITION_KEY)
        if noted is not None:
            self.position = _POSITION_FORM.decode(noted.value)
        return earlier is not None

    def note(self, position: CopyPosition) -> None:
        """Notes a position, when all that was written before it is durable."""
        self.flush()
        self.put([(FORMAT_PARTITION, POSITION_KEY, encode_row(position))])
        self.position = position

    def finish(self, mark: bytes) -> None:
        """Replaces the mark of the copy by that of the format: from now on servers open it."""
        self.flush()
        self.delete(FORMAT_PARTITION, POSITION_KEY)
        self._entry = self._swap(mark, self._entry)
        self.flush()

    def put(self, items: Sequence[Item]) -> None:
        """Writes rows, in batches that the store takes."""
        self._check_owned()
        for batch in self._batches(items):
            self.retried.call(self.store.put_many, batch)

    def add(self, items: Sequence[Item], half_day: int) -> None:
        """Adds objects, in batches that the store takes."""
        self._check_owned()
        for batch in self._batches(items):
            self.retried.call(self.store.add_many, Adds(batch, half_day))

    def fetch(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns rows in the order of their names."""
        step = self.store.capabilities.read_items_max
        found: list[Entry | None] = []
        for start in range(0, len(names), step):
            found += self.retried.call(self.store.get_many, names[start : start + step])
        return found

    def delete(self, place: Partition, key: bytes) -> None:
        """Deletes a row."""
        self._check_owned()
        self.retried.call(self.store.delete, place, key)

    def flush(self) -> None:
        """Makes durable what was written."""
        self.retried.call(self.store.flush, self.store.epoch())

    def _find(self, key: bytes) -> Entry | None:
        return self.retried.call(self.store.get, FORMAT_PARTITION, key)

    def _check_empty(self) -> None:
        for place in ROOT_PLACES:
            if next(rows_of(self.rows, place), None) is not None:
                raise AlreadyExists("the target is not empty: name an empty store")

    def _check_owned(self) -> None:
        found = self._find(FORMAT_KEY)
        if found != self._entry:
            raise _taken()

    def _swap(self, value: bytes, expected: Entry | None) -> Entry:
        """Replaces the mark; it is the same conditional write however often it is sent."""
        place, key = FORMAT_PARTITION, FORMAT_KEY
        stamp = ABSENT if expected is None else expected.stamp
        self.retried.call(self.store.set_if, place, key, value, stamp)
        # Won, or lost to an earlier try whose reply was lost, if this is what is there.
        found = self._find(key)
        if found is None or found.value != value:
            raise _taken()
        return found

    def _batches(self, items: Sequence[Item]) -> list[list[Item]]:
        limits = self.store.capabilities
        batches: list[list[Item]] = []
        size = 0
        for item in items:
            if len(item[2]) > limits.value_bytes_max:
                raise TooLarge(
                    f"a row of {len(item[2])} bytes is over the target's limit of "
                    f"{limits.value_bytes_max}"
                )
            size += len(item[2])
            if (
                not batches
                or len(batches[-1]) == limits.batch_items_max
                or size > limits.batch_bytes_max
            ):
                batches.append([])
                size = len(item[2])
            batches[-1].append(item)
        return batches


def _taken() -> Conflict:
    return Conflict("another process writes to the target: let it finish, or name another target")
