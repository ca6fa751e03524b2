"""Which rows a call reads and writes, and whether two calls commute.

Two calls commute if no row that one of them may write is touched by the other. A conditional write
counts as a write even if it loses. Stamps and epochs differ with the order of unrelated writes;
they are opaque, so nothing may depend on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from lochan.kv.store import Adds, Item, Name, Partition, SetIf
from lochan.testing.faults import PlannedCall

Range = tuple[Partition, bytes, bytes | None]
"""Rows of a partition from a key to before another."""


class Footprint(msgspec.Struct, frozen=True, gc=False):
    """Rows read, rows that may be written, ranges read, partitions dropped, prefixes walked."""

    reads: tuple[Name, ...] = ()
    writes: tuple[Name, ...] = ()
    scans: tuple[Range, ...] = ()
    drops: tuple[Partition, ...] = ()
    walks: tuple[bytes, ...] = ()


NOTHING: Final = Footprint()


def footprint(call: PlannedCall, *, row_locks: bool = False) -> Footprint:
    """Returns the rows of a store call; with row locks a hold counts as a write."""
    operation, arguments = call.operation, call.arguments
    if operation in ("get", "hold"):
        name = cast("Name", arguments)
        if row_locks and operation == "hold":
            return Footprint(writes=(name,))
        return Footprint(reads=(name,))
    if operation in ("set_if", "delete", "delete_if"):
        return Footprint(writes=(cast("Name", arguments[:2]),))
    if operation == "get_many":
        return Footprint(reads=tuple(cast("Sequence[Name]", arguments[0])))
    if operation == "put_many":
        return Footprint(writes=_names(cast("Sequence[Item]", arguments[0])))
    if operation == "add_many":
        return Footprint(writes=_names(cast("Adds", arguments[0]).items))
    if operation == "apply":
        row = cast("SetIf", arguments[1])
        added = _names(cast("Adds", arguments[0]).items)
        return Footprint(writes=((row.partition, row.key), *added))
    if operation == "apply_each":
        changes = cast("Sequence[tuple[Adds, SetIf]]", arguments[0])
        rows = [(row.partition, row.key) for _, row in changes]
        objects = [name for adds, _ in changes for name in _names(adds.items)]
        return Footprint(writes=(*rows, *objects))
    if operation == "scan":
        return Footprint(scans=(cast("Range", arguments[:3]),))
    if operation == "walk":
        return Footprint(walks=(cast("bytes", arguments[0]),))
    if operation == "drop_partition":
        return Footprint(drops=(cast("Partition", arguments[0]),))
    return NOTHING


def commute(one: Footprint, other: Footprint) -> bool:
    """Returns whether the order of two calls makes no difference."""
    return not (_disturbs(one, other) or _disturbs(other, one))


def _disturbs(writer: Footprint, other: Footprint) -> bool:
    for name in writer.writes:
        if name in other.reads or name in other.writes or _is_walked(name[0], other):
            return True
        for partition, start, end in other.scans:
            if partition == name[0] and start <= name[1] and (end is None or name[1] < end):
                return True
    return any(_in_partition(partition, other) for partition in writer.drops)


def _in_partition(partition: Partition, other: Footprint) -> bool:
    named = any(name[0] == partition for name in (*other.reads, *other.writes))
    scanned = any(scan[0] == partition for scan in other.scans)
    return named or scanned or partition in other.drops or _is_walked(partition, other)


def _is_walked(partition: Partition, other: Footprint) -> bool:
    return any(partition.startswith(prefix) for prefix in other.walks)


def _names(items: Sequence[Item]) -> tuple[Name, ...]:
    return tuple([(partition, key) for partition, key, _ in items])
