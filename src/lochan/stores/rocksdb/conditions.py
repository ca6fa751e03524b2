"""Whether a stored row is what a conditional write expects, and what the loser is told."""

from __future__ import annotations

from lochan.base.checks import check_stored
from lochan.kv.store import ABSENT, PRESENT, Expected, Lost
from lochan.stores.rocksdb.rows import HEADER_BYTES, STAMP_BYTES, read_entry


def holds(expected: Expected, raw: bytes | None) -> bool:
    """Tells whether a stored row, None if there is none, is as expected."""
    if expected is ABSENT:
        return raw is None
    if raw is None:
        return False
    # A damaged row is nothing that may be overwritten unseen.
    check_stored(len(raw) >= HEADER_BYTES, "a stored row is at least as long as its header")
    return expected is PRESENT or raw[:STAMP_BYTES] == expected


def lost(key: bytes, raw: bytes | None) -> Lost:
    """Returns the outcome of a conditional write that met this row."""
    return Lost(ABSENT if raw is None else read_entry(key, raw))
