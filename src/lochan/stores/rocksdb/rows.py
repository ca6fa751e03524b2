"""How rows are stored in RocksDB's one ordered key space.

Key: one byte with the length of the partition, the partition, the key. Because the length comes
first, a partition that is a prefix of another is still a range of its own. Length 0 is no
partition and holds the store's own row, `OPEN_NUMBER_KEY`.

Value: 8 bytes stamp, 4 bytes half-day, then what the caller stored.

A column family for each kind was measured no faster, and costs a write buffer each.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt
from lochan.base.keys import prefix_end
from lochan.base.limits.storage import PARTITION_BYTES_MAX, STORE_KEY_BYTES_MAX
from lochan.kv.arguments import check_items
from lochan.kv.defaults import is_as_expected
from lochan.kv.store import ABSENT, Capabilities, Entry, Expected, Item, Lost, Partition, Stamp

HEADER_BYTES: Final = 12
STAMP_BYTES: Final = 8

OPEN_NUMBER_KEY: Final = b"\0open"

# 2**40 writes between two opens are 35 years at a thousand a second; 2**24 opens one a minute
# for 31 years.
COUNTER_BITS: Final = 40
OPEN_NUMBER_MAX: Final = 2**24 - 1

_HEADER: Final = Struct(">QI")
_LENGTHS: Final = tuple(bytes((length,)) for length in range(PARTITION_BYTES_MAX + 1))


def row_key(partition: Partition, key: bytes) -> bytes:
    """Builds the physical key of a checked name."""
    return _LENGTHS[len(partition)] + partition + key


def row_prefix(partition: Partition) -> bytes:
    """Builds what all physical keys of the partition start with."""
    return _LENGTHS[len(partition)] + partition


def row_prefix_end(prefix: bytes) -> bytes:
    """Returns the exclusive end of a partition's physical keys."""
    end = prefix_end(prefix)
    # Only the partition of 255 bytes 0xff has no end; a key longer than any key serves.
    return prefix + b"\xff" * (STORE_KEY_BYTES_MAX + 1) if end is None else end


def row_keys(items: Sequence[Item], capabilities: Capabilities) -> list[bytes]:
    """Checks items as `check_items` does and builds their physical keys.

    This is the hottest loop of the product, so the checks are written out; what fails one of them
    is passed to `check_items`, which raises the error that all stores raise.
    """
    value_bytes_max = capabilities.value_bytes_max
    lengths = _LENGTHS
    total = 0
    keys: list[bytes] = []
    append = keys.append
    for partition, key, value in items:
        if type(partition) is not bytes or type(key) is not bytes or type(value) is not bytes:
            break
        size = len(value)
        if not partition or not key or size > value_bytes_max:
            break
        if len(partition) > PARTITION_BYTES_MAX or len(key) > STORE_KEY_BYTES_MAX:
            break
        total += size
        append(lengths[len(partition)] + partition + key)
    too_large = total > capabilities.batch_bytes_max or len(keys) > capabilities.batch_items_max
    if too_large or len(keys) < len(items):
        check_items(items, capabilities)
    return keys


def build_header(number: int, half_day: int = 0) -> bytes:
    """Builds the header of every value of one write."""
    return _HEADER.pack(number, half_day)


def read_entry(key: bytes, raw: bytes) -> Entry:
    """Takes a stored value apart."""
    if len(raw) < HEADER_BYTES:
        raise Corrupt(f"a stored row of {len(raw)} bytes is shorter than its header")
    half_day = int.from_bytes(raw[STAMP_BYTES:HEADER_BYTES], "big")
    return Entry(key, raw[HEADER_BYTES:], Stamp(raw[:STAMP_BYTES]), half_day)


def read_entries(rows: Sequence[tuple[bytes, bytes]], skipped: int) -> list[Entry]:
    """Does the same for many rows whose keys begin with so many bytes of their partition."""
    if rows and min([len(raw) for _, raw in rows]) < HEADER_BYTES:
        raise Corrupt("a stored row is shorter than its header")
    number = int.from_bytes
    return [
        Entry(
            name[skipped:],
            raw[HEADER_BYTES:],
            Stamp(raw[:STAMP_BYTES]),
            number(raw[STAMP_BYTES:HEADER_BYTES], "big"),
        )
        for name, raw in rows
    ]


def matches(expected: Expected, raw: bytes | None) -> bool:
    """Returns whether a stored value, None if there is no row, meets the expectation."""
    if raw is None:
        return is_as_expected(expected, None)
    if len(raw) < HEADER_BYTES:
        # A damaged row must not be overwritten unnoticed.
        raise Corrupt(f"a stored row of {len(raw)} bytes is shorter than its header")
    return is_as_expected(expected, raw[:STAMP_BYTES])


def lost_to(key: bytes, raw: bytes | None) -> Lost:
    """Returns the outcome of a conditional write that found this value."""
    return Lost(ABSENT if raw is None else read_entry(key, raw))


def read_half_day(raw: bytes) -> int:
    """Reads only the half-day of a stored value."""
    check_stored(len(raw) >= HEADER_BYTES, "a stored row is at least as long as its header")
    return int.from_bytes(raw[STAMP_BYTES:HEADER_BYTES], "big")


def read_open_number(raw: bytes | None) -> int:
    """Returns the number that the last opening left, 0 if there was none."""
    if raw is None:
        return 0
    check_stored(len(raw) == STAMP_BYTES, "the number of openings has 8 bytes")
    return int.from_bytes(raw, "big")
