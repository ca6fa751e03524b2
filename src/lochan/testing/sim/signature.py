"""Counts interleavings as different only if conflicting calls came in a different order.

For each row that two actors touched and one of them wrote, the calls on it are listed in order,
except that reads without a write between them are sorted, because their order has no effect. A
scanned range and the writes of its rows are listed in the same way. All lists together identify
the interleaving; two runs that differ by swapping calls that commute have the same lists.

Ids are random, so a row is named by the actors that used it: the smallest pair of an actor and the
number of rows that this actor had used before. That does not depend on the order of calls that
commute. Calls whose order is not distinguished here (walks; point reads against a drop of the whole
partition) count as equal, so the number of different interleavings is never too large.
"""

from __future__ import annotations

from hashlib import blake2b

from lochan.kv.store import Name, Partition
from lochan.testing.faults import OK, FaultKind
from lochan.testing.sim.footprint import Footprint, Range, footprint
from lochan.testing.sim.trace import Step, kind_of

Row = Name | Range
"""A row, or a range that was scanned, or dropped with its whole partition."""

Access = tuple[str, str]
"""Actor, operation."""

READ, WRITE, SCAN, PART = range(4)

WITHOUT_EFFECT = (FaultKind.NOT_APPLIED, FaultKind.LATE, FaultKind.CRASH_BEFORE)
"""A call with such a fault had no effect when it was made."""


def signatures(steps: list[Step]) -> tuple[bytes, bytes]:
    """Returns marks of the order of conflicting calls: of the order only, and with the faults."""
    rows: dict[Row, list[tuple[int, Access]]] = {}
    labels: dict[Row, tuple[str, int]] = {}
    known: dict[str, int] = {}
    ranges = _ranges(steps)
    faults = []
    for actor, call, fault in steps:
        count = known.get(actor, 0)
        if fault is not OK:
            faults.append((actor, count, fault.kind.value, fault.count))
            if fault.kind in WITHOUT_EFFECT:
                continue
        access = (actor, call.operation)
        for row, how in _touched(footprint(call), ranges):
            rows.setdefault(row, []).append((how, access))
            label = (actor, count)
            if row not in labels or label < labels[row]:
                labels[row] = label
            count += 1
        known[actor] = count
    lists = []
    for row, accesses in rows.items():
        if _in_conflict(accesses):
            lists.append((labels[row], kind_of(row[0]), _canonical(accesses)))
    lists.sort()
    faults.sort()
    return _mark(lists), _mark((lists, faults))


def _ranges(steps: list[Step]) -> dict[Partition, set[Range]]:
    """Returns every range that was touched as a whole, by partition."""
    found: dict[Partition, set[Range]] = {}
    for _, call, _ in steps:
        if call.operation in ("scan", "drop_partition"):
            touched = footprint(call)
            for one in (*touched.scans, *[_all_of(partition) for partition in touched.drops]):
                found.setdefault(one[0], set()).add(one)
    return found


def _all_of(partition: Partition) -> Range:
    return partition, b"", None


def _touched(touched: Footprint, ranges: dict[Partition, set[Range]]) -> list[tuple[Row, int]]:
    found: list[tuple[Row, int]] = [(name, READ) for name in touched.reads]
    for name in touched.writes:
        found.append((name, WRITE))
        if name[0] in ranges:
            found += [(one, PART) for one in sorted(ranges[name[0]], key=repr) if _in(name, one)]
    found += [(scan, SCAN) for scan in touched.scans]
    found += [(_all_of(partition), WRITE) for partition in touched.drops]
    return found


def _in(name: Name, one: Range) -> bool:
    return one[1] <= name[1] and (one[2] is None or name[1] < one[2])


def _in_conflict(accesses: list[tuple[int, Access]]) -> bool:
    first_how, (first, _) = accesses[0]
    if all(actor == first for _, (actor, _) in accesses):
        return False
    # Only reads, only scans, or only writes of different rows of a partition: no conflict.
    return first_how == WRITE or any(how != first_how for how, _ in accesses)


def _canonical(accesses: list[tuple[int, Access]]) -> list[Access]:
    """Sorts each run of calls that commute."""
    result: list[Access] = []
    run: list[Access] = []
    last = WRITE
    for how, access in accesses:
        if how != last or how == WRITE:
            run.sort()
            result += run
            run = []
            last = how
        run.append(access)
    run.sort()
    return result + run


def _mark(lists: object) -> bytes:
    return blake2b(repr(lists).encode(), digest_size=8).digest()
