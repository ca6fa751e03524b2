"""Checks of arguments, the same in every store, before anything is read or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lochan.base.errors import Invalid, TooLarge
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.base.limits.storage import PARTITION_BYTES_MAX, STORE_KEY_BYTES_MAX
from lochan.kv.store import (
    PRESENT,
    Adds,
    Capabilities,
    Expectation,
    Expected,
    Item,
    Name,
    Partition,
    SetIf,
)

# Four bytes of half-days reach past the year 5,000,000, and every database has such a column.
HALF_DAY_MAX: Final = 2**32 - 1


def check_partition(partition: Partition) -> None:
    """Refuses partitions that are not 1 to 255 bytes."""
    if type(partition) is not bytes or not 0 < len(partition) <= PARTITION_BYTES_MAX:
        raise Invalid(f"a partition is 1 to {PARTITION_BYTES_MAX} bytes")


def check_name(partition: Partition, key: bytes) -> None:
    """Refuses names that no row can have."""
    check_partition(partition)
    if type(key) is not bytes or not 0 < len(key) <= STORE_KEY_BYTES_MAX:
        raise Invalid(f"a key is 1 to {STORE_KEY_BYTES_MAX} bytes")


def check_value(value: bytes, capabilities: Capabilities) -> None:
    """Refuses values that are not bytes or too large for the store; empty ones are fine."""
    if type(value) is not bytes:
        raise Invalid(f"a value is bytes, not {type(value).__name__}")
    if len(value) > capabilities.value_bytes_max:
        raise TooLarge(
            f"a value of {len(value)} bytes is over this store's {capabilities.value_bytes_max}"
        )


def check_names(names: Sequence[Name], capabilities: Capabilities) -> None:
    """Refuses bulk reads over the store's batch."""
    _check_count(len(names), capabilities.read_items_max)
    for partition, key in names:
        check_name(partition, key)


def check_items(items: Sequence[Item], capabilities: Capabilities) -> None:
    """Refuses bulk writes over the store's batch, or with one bad item."""
    _check_items(items, capabilities, capabilities.batch_items_max, capabilities.batch_bytes_max)


def check_adds(adds: Adds, capabilities: Capabilities) -> None:
    """Refuses bad items, and half-days that do not fit four bytes."""
    check_half_day(adds.half_day)
    check_items(adds.items, capabilities)


def check_half_day(half_day: int) -> None:
    """Refuses half-days that do not fit four bytes."""
    if type(half_day) is not int or not 0 <= half_day <= HALF_DAY_MAX:
        raise Invalid(f"a half-day is a number from 0 to {HALF_DAY_MAX}")


def check_apply(adds: Adds, condition: SetIf, capabilities: Capabilities) -> None:
    """Refuses bad objects, a bad row, and objects that are the row.

    A row that is also an object would be set before or after it is added, depending on the store.
    """
    check_half_day(adds.half_day)
    _check_items(
        adds.items, capabilities, capabilities.apply_items_max, capabilities.apply_bytes_max
    )
    check_name(condition.partition, condition.key)
    check_value(condition.value, capabilities)
    check_expected(condition.expected)
    for partition, key, _ in adds.items:
        if key == condition.key and partition == condition.partition:
            raise Invalid("the row of an apply cannot be one of its objects")


def check_epoch(epoch: int, last: int) -> None:
    """Refuses to wait for writes that were not made yet."""
    if type(epoch) is not int or not 0 <= epoch <= last:
        raise Invalid(f"an epoch is a number from 0 to {last}, that of the last write")


def check_expected(expected: Expected, *, deleting: bool = False) -> None:
    """Refuses what is neither a stamp nor ABSENT nor PRESENT."""
    if isinstance(expected, bytes) or expected is PRESENT:
        return
    if not isinstance(expected, Expectation):
        raise Invalid("expected is a stamp, ABSENT or PRESENT")
    if deleting:
        raise Invalid("a delete cannot expect ABSENT")


def check_range(partition: Partition, start: bytes, end: bytes | None, limit: int) -> None:
    """Refuses ranges that are not bytes and limits that are not 1 to the maximum."""
    check_partition(partition)
    if type(start) is not bytes or not (end is None or type(end) is bytes):
        raise Invalid("a range is given as bytes")
    if type(limit) is not int or not 0 < limit <= SCAN_ENTRIES_MAX:
        raise Invalid(f"a page has 1 to {SCAN_ENTRIES_MAX} entries, not {limit}")


def _check_items(
    items: Sequence[Item], capabilities: Capabilities, items_max: int, bytes_max: int
) -> None:
    _check_count(len(items), items_max)
    total = 0
    for partition, key, value in items:
        check_name(partition, key)
        check_value(value, capabilities)
        total += len(value)
    if total > bytes_max:
        raise TooLarge(f"a batch of {total} bytes is over this store's {bytes_max}")


def _check_count(count: int, items_max: int) -> None:
    if count > items_max:
        raise TooLarge(f"a batch of {count} items is over this store's {items_max}")


def check_different_rows(changes: Sequence[tuple[Adds, SetIf]]) -> None:
    """Refuses two changes of one row in one call."""
    rows = {(condition.partition, condition.key) for _, condition in changes}
    if len(rows) != len(changes):
        raise Invalid("the changes of one call must be of different rows")
