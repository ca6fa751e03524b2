"""The Store protocol: partitioned, ordered, with a conditional set that has three outcomes.

Rules that every store keeps and that everything above relies on:

1. A conditional write is **won**, **lost** or raises `Unknown`; "definitely not applied, but not
   lost either" raises `Unavailable`, or `Exhausted` if the database refuses more work for now. It
   is sent once per call: a driver that repeats it would turn Unknown into lost.
2. Stamps are never reused, not even after delete and re-create, so there is no ABA.
3. An error is never "end of data" and never "absent".
4. A value is what was written, whole, or the read raises `Corrupt`.
5. A call that returned is visible to every later call. Whether it also survives a power cut is in
   `capabilities.durable_on_return`; `flush` makes it durable.
6. Messages of a driver or of the system go into errors of the classes Unavailable, Unknown,
   Exhausted, Corrupt and Bug only: their messages are logged and not sent to clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final, Literal, NewType, Protocol

import msgspec

from lochan.base.checks import check
from lochan.base.ids import INSTANCE_ID_BYTES, InstanceId

Partition = NewType("Partition", bytes)
"""Instance id (16 bytes), kind (1 byte) and suffix: a name space of keys."""

Stamp = NewType("Stamp", bytes)
"""Opaque mark of one write of one row."""

Name = tuple[Partition, bytes]
"""Partition and key: the name of a row."""

Item = tuple[Partition, bytes, bytes]
"""Partition, key and value."""


class Kind(IntEnum):
    """What a partition holds; a store may serve each kind from a table of its own."""

    META = 0x6D
    REPOSITORIES = 0x52
    OBJECTS = 0x6F
    REFERENCES = 0x72
    LOG = 0x6C
    CLAIMS = 0x63
    STAGING = 0x73
    ACCESS = 0x61
    UPLOADS = 0x75
    KEY_PACKS = 0x6B
    CURSORS = 0x65


def partition(instance: InstanceId, kind: Kind, suffix: bytes = b"") -> Partition:
    """Builds the name of a partition."""
    check(len(instance) == INSTANCE_ID_BYTES, "an instance id has 16 bytes")
    return Partition(instance + bytes((kind,)) + suffix)


class Expectation(Enum):
    """What a conditional write may expect beside a stamp."""

    ABSENT = "absent"
    PRESENT = "present"


ABSENT: Final = Expectation.ABSENT
PRESENT: Final = Expectation.PRESENT

Expected = Stamp | Expectation


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One row: its key, its value, the stamp of its last write.

    `half_day` counts the 12-hour periods since 1970 at which an added object was last stored; it is
    0 for rows written in any other way.
    """

    key: bytes
    value: bytes
    stamp: Stamp
    half_day: int = 0


class Won(msgspec.Struct, frozen=True, gc=False):
    """The conditional write took effect; `stamp` marks it, or what was deleted."""

    stamp: Stamp


class Lost(msgspec.Struct, frozen=True):
    """The condition did not hold and nothing was written.

    `current` is the row that was there, ABSENT if there was none, or None if the store does not
    know it and the caller must read again.
    """

    current: Entry | Literal[Expectation.ABSENT] | None


Outcome = Won | Lost


class SetIf(msgspec.Struct, frozen=True, gc=False):
    """A conditional set, as an argument of `apply`."""

    partition: Partition
    key: bytes
    value: bytes
    expected: Expected


class Adds(msgspec.Struct, frozen=True, gc=False):
    """Immutable objects to insert if absent, with the half-day on which that happens."""

    items: Sequence[Item]
    half_day: int


class Page(msgspec.Struct, frozen=True):
    """One page of a scan; `next_start` starts the next page, None at the end of the range."""

    entries: list[Entry]
    next_start: bytes | None


class Capabilities(msgspec.Struct, frozen=True, gc=False):
    """What a store can do; callers read it here and never guess."""

    value_bytes_max: int
    """The largest value of one row."""

    read_items_max: int
    """The most names of one bulk read."""

    batch_items_max: int
    """The most items of one bulk write."""

    batch_bytes_max: int
    """The most bytes of values in one bulk write."""

    apply_items_max: int
    """The most objects of one `apply`; a caller with more adds them before it."""

    apply_bytes_max: int
    """The most bytes of objects in one `apply`."""

    atomic_apply: bool
    """`apply` writes objects and row in one step, objects only if the condition won."""

    inline: bool
    """Calls take microseconds and may run on an event loop; else they block."""

    durable_on_return: bool
    """A write that returned survives a power cut without `flush`."""

    row_locks: bool
    """`hold` locks the row against other processes."""


class Hold(Protocol):
    """A row that was read in order to be written next; owns that next `apply`."""

    @property
    def entry(self) -> Entry | None:
        """The row as it was read under the lock."""
        ...

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """As `Store.apply`; ends the hold."""
        ...

    def release(self) -> None:
        """Unlocks the row without writing; harmless after `apply`."""
        ...


class Store(Protocol):
    """Everything that Lochan needs of a database."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        ...

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        """Returns the row, or None if it is absent."""
        ...

    def get_many(self, names: Sequence[Name]) -> list[Entry | None]:
        """Returns the rows in the order of the names, in one round trip where possible."""
        ...

    def add_many(self, adds: Adds) -> None:
        """Inserts what is absent and keeps what is there; renews an older half-day. Idempotent.

        Renewing gives the row a new stamp, so that a collector's `delete_if` loses.
        """
        ...

    def put_many(self, items: Sequence[Item]) -> None:
        """Writes all items, each with a new stamp; of two with one name the last counts."""
        ...

    def set_if(self, partition: Partition, key: bytes, value: bytes, expected: Expected) -> Outcome:
        """Writes the row if it is as expected."""
        ...

    def delete(self, partition: Partition, key: bytes) -> None:
        """Makes the row absent. Idempotent."""
        ...

    def delete_if(self, partition: Partition, key: bytes, expected: Expected) -> Outcome:
        """Deletes the row if it is as expected (a stamp or PRESENT)."""
        ...

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Returns at most `limit` rows of [start, end), ordered by the bytes of their keys.

        Pages that follow each other's `next_start` have no gap and no repeat: a row that was there
        all the time is returned exactly once. A page may be short before the end.
        """
        ...

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        """Adds objects and sets one row if it is as expected.

        Atomic where the store can, and then nothing is written unless the condition won; else the
        objects are added first.
        """
        ...

    def apply_each(self, changes: Sequence[tuple[Adds, SetIf]]) -> list[Outcome]:
        """Applies changes of different rows, each won or lost for itself.

        One round trip where the store can. Unknown if any of them may have taken effect without
        its outcome being known; Unavailable and Exhausted only if none has.
        """
        ...

    def hold(self, partition: Partition, key: bytes) -> Hold:
        """Reads a row in order to write it next, locked where the store has row locks."""
        ...

    def drop_partition(self, partition: Partition) -> None:
        """Deletes every row of a partition to which nothing is written any more. Idempotent."""
        ...

    def epoch(self) -> int:
        """Returns the number of the last acknowledged write."""
        ...

    def flush(self, epoch: int) -> None:
        """Returns when every write up to that number is durable."""
        ...

    def close(self) -> None:
        """Flushes and releases all resources; every later call raises StoreClosed. Idempotent."""
        ...
