"""Counts interleavings as different only if conflicting calls came in a different order.

For each row that two actors touched and one of them wrote, the calls on it are listed in order,
except that reads without a write between them are sorted: their order is seen by nobody. A scan
meets the writes of its whole partition in the same way. All lists together say which interleaving
it was; two runs that differ by swapping calls that commute have the same lists.

Ids are random, so a row is named by who knows it: the smallest (actor, how many rows that actor
had touched before). That does not depend on the order of calls that commute. Calls whose order
cannot be told apart here (point reads against a drop of the whole partition) count as equal, so
the number of different interleavings is never too large.
"""

from __future__ import annotations

from hashlib import blake2b

from lochan.kv.faults import OK, FaultKind
from lochan.kv.store import Name, Partition
from lochan.testing.sim.footprint import Footprint, footprint
from lochan.testing.sim.trace import Step, kind_of

Row = Name | Partition
"""A row, or a partition as far as it is scanned or dropped as a whole."""

Access = tuple[str, str]
"""Who, operation."""

READ, WRITE, SCAN, PART = range(4)
WHOLE = ("scan", "drop_partition")

WITHOUT_EFFECT = (FaultKind.NOT_APPLIED, FaultKind.LATE, FaultKind.CRASH_BEFORE)
"""A call with such a fault touched nothing when it was made."""


def signatures(steps: list[Step]) -> tuple[bytes, bytes]:
    """Returns marks of the order of conflicting calls: of the order only, and with the faults."""
    rows: dict[Row, list[tuple[int, Access]]] = {}
    labels: dict[Row, tuple[str, int]] = {}
    known: dict[str, int] = {}
    whole = {call.partition for _, call, _ in steps if call.operation in WHOLE and call.partition}
    faults = []
    for who, call, fault in steps:
        count = known.get(who, 0)
        if fault is not OK:
            faults.append((who, count, fault.kind.value, fault.count))
            if fault.kind in WITHOUT_EFFECT:
                continue
        access = (who, call.operation)
        for row, how in _touched(footprint(call), whole):
            rows.setdefault(row, []).append((how, access))
            label = (who, count)
            if row not in labels or label < labels[row]:
                labels[row] = label
            count += 1
        known[who] = count
    lists = []
    for row, accesses in rows.items():
        if _in_conflict(accesses):
            kind = kind_of(row if isinstance(row, bytes) else row[0])
            lists.append((labels[row], kind, _canonical(accesses)))
    lists.sort()
    faults.sort()
    return _mark(lists), _mark((lists, faults))


def _touched(print_: Footprint, whole: set[Partition]) -> list[tuple[Row, int]]:
    found: list[tuple[Row, int]] = [(name, READ) for name in print_.reads]
    for name in print_.writes:
        found.append((name, WRITE))
        if name[0] in whole:
            found.append((name[0], PART))
    found += [(scan[0], SCAN) for scan in print_.scans]
    found += [(partition, WRITE) for partition in print_.drops]
    return found


def _in_conflict(accesses: list[tuple[int, Access]]) -> bool:
    first_how, (first, _) = accesses[0]
    if all(who == first for _, (who, _) in accesses):
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
