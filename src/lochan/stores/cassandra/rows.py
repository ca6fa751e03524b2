"""Rows of the table: how entries are read, and the statements that set them.

`p` is the partition, `k` the key, `v` the value, `s` the stamp (16 random bytes of each write), `h`
the half-day. Partitions and keys are blobs, which Cassandra orders by their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from lochan.base.checks import check_stored
from lochan.base.errors import Unknown
from lochan.kv.store import ABSENT, PRESENT, Entry, Lost, Outcome, SetIf, Stamp, Won
from lochan.stores.cassandra.client import Request, Row
from lochan.stores.cassandra.statements import TableStatement

STAMP_BYTES: Final = 16
APPLIED: Final = "[applied]"


def new_stamp() -> Stamp:
    """Returns a stamp that no row has ever had."""
    return Stamp(os.urandom(STAMP_BYTES))


def read_entry(row: Row) -> Entry:
    """Returns the entry of a row."""
    value, stamp, half_day = row["v"], row["s"], row["h"]
    whole = value is not None and stamp is not None and half_day is not None
    check_stored(whole, "a row of the table has lost columns")
    return Entry(row["k"], value, Stamp(stamp), half_day)


def set_request(change: SetIf, stamp: Stamp) -> Request:
    """Returns the statement that sets a row if it is as expected."""
    where = (change.partition, change.key)
    if change.expected is ABSENT:
        return TableStatement.ADD, (*where, change.value, stamp, 0)
    if change.expected is PRESENT:
        return TableStatement.REPLACE, (change.value, stamp, *where)
    return TableStatement.SWAP, (change.value, stamp, *where, change.expected)


def read_outcome(change: SetIf, stamp: Stamp, answer: Sequence[Row]) -> Outcome:
    """Returns what the answer to `set_request` states."""
    if is_applied(answer):
        return Won(stamp)
    if change.expected is PRESENT:
        return Lost(ABSENT)
    if change.expected is ABSENT and answer[0].get("s") is not None:
        return Lost(read_entry(answer[0]))
    return Lost(None)


def is_applied(answer: Sequence[Row]) -> bool:
    """Returns whether a conditional statement took effect."""
    if not answer or not isinstance(answer[0].get(APPLIED), bool):
        raise Unknown("Cassandra answered a conditional write without stating its outcome")
    return bool(answer[0][APPLIED])
