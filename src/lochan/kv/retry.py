"""A wrapper that repeats reads and `add_many` when the store was briefly unavailable.

Conditional writes pass through untouched: repeating one turns Unknown into lost. `put_many` and
`delete` do too, because a second copy could arrive after somebody else's later write. `add_many`
keeps what is there, so it may even be repeated after Unknown. A store that was closed or that
belongs to another process will not come back by waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lochan.base.errors import StoreClosed, StoreLocked, Unavailable, Unknown
from lochan.base.limits import READ_ATTEMPTS_MAX, READ_RETRY_FIRST_SLEEP_MS
from lochan.base.ports import Waiting
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

_Result = TypeVar("_Result")


class RetryingReads:
    """A Store that tries what is safe to repeat a bounded number of times."""

    def __init__(self, store: Store, waiting: Waiting) -> None:
        self._store = store
        self._waiting = waiting

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store within."""
        return self._store.capabilities

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Passes on, repeatedly if need be."""
        return self._repeat(lambda: self._store.get(partition, key))

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Passes on, repeatedly if need be."""
        return self._repeat(lambda: self._store.get_many(names))

    def add_many(self, adds: Adds) -> None:
        """Passes on, repeatedly if need be."""
        self._repeat(lambda: self._store.add_many(adds), after_unknown=True)

    def put_many(self, items: Sequence[Item]) -> None:
        """Passes on once."""
        self._store.put_many(items)

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Passes on once."""
        return self._store.set_if(partition, key, value, expected)

    def delete(self, partition: Partition, key: bytes) -> None:
        """Passes on once."""
        self._store.delete(partition, key)

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Passes on once."""
        return self._store.delete_if(partition, key, expected)

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Passes on, repeatedly if need be."""
        return self._repeat(lambda: self._store.scan(partition, start, end, limit))

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Passes on once."""
        return self._store.apply(adds, condition)

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Passes on once."""
        return self._store.apply_each(changes)

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Passes on once: the first attempt may have left a lock behind."""
        return self._store.hold(partition, key)

    def drop_partition(self, partition: Partition) -> None:
        """Passes on once."""
        self._store.drop_partition(partition)

    def epoch(self) -> int:
        """Passes on once."""
        return self._store.epoch()

    def flush(self, epoch: int) -> None:
        """Passes on once."""
        self._store.flush(epoch)

    def close(self) -> None:
        """Passes on once."""
        self._store.close()

    def _repeat(self, call: Callable[[], _Result], *, after_unknown: bool = False) -> _Result:
        sleep_ms = READ_RETRY_FIRST_SLEEP_MS
        for _ in range(READ_ATTEMPTS_MAX - 1):
            try:
                return call()
            except (StoreClosed, StoreLocked):
                raise
            except Unavailable:
                pass
            except Unknown:
                if not after_unknown:
                    raise
            self._waiting.sleep_ms(sleep_ms)
            sleep_ms *= 2
        return call()
