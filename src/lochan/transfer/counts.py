"""What a store contains: rows and bytes of values by repository and kind.

A quick count reads a bounded number of rows for each repository: rows are counted up to a limit,
objects by a sample of the 65,536 partitions that they are spread over by their hash. An exact count
reads everything. Both are done in steps; a token names the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from lochan.base.errors import Corrupt, Invalid, NewerFormat
from lochan.base.ids import INSTANCE_ID_BYTES, ROOT_INSTANCE, InstanceId
from lochan.base.limits.maintenance import (
    COPY_PAGE_ROWS_MAX,
    STATS_OBJECTS_MAX,
    STATS_PAGES_MAX,
    STATS_PARTITIONS,
    STATS_ROWS_MAX,
)
from lochan.codec.rows import REPOSITORY_FORM
from lochan.kernel.repository import INSTANCES_PLACE, REPOSITORIES_PLACE, read_instance
from lochan.kv.store import Entry, Kind, Partition, partition
from lochan.model.stores import Accuracy, CountPage, KindCount, StoredState
from lochan.transfer.erasure import list_deleted
from lochan.transfer.places import ROOT_PLACES, kind_of, row_places, rows_of
from lochan.transfer.sources import RowSource

_OBJECT_PLACES: Final = 65_536
_KEY_PACK_PLACES: Final = 256
_BULK_PLACES: Final = {Kind.OBJECTS: _OBJECT_PLACES, Kind.KEY_PACKS: _KEY_PACK_PLACES}


class _Instance(msgspec.Struct, frozen=True):
    id: InstanceId
    name: str = ""
    state: StoredState = ""


def count_page(source: RowSource, *, exact: bool = False, token: str | None = None) -> CountPage:
    """Counts a part of a store; without a token the first one."""
    at, cursor = _read_token(token)
    instances = [one for one in _instances(source) if one.id >= at]
    if not instances:
        return CountPage((), None)
    current = instances[0]
    if current.id != at:
        cursor = b""
    following = instances[1].id.hex() if len(instances) > 1 else None
    if not exact:
        return CountPage(tuple(_count_quickly(source, current)), following)
    rows, sizes, further = _count_some(source, current.id, cursor)
    counts = [
        KindCount(current.name, current.state, _name_of(kind), rows[kind], sizes[kind])
        for kind in sorted(rows)
    ]
    if further is not None:
        following = f"{current.id.hex()}.{further.hex()}"
    return CountPage(tuple(counts), following)


def add_counts(counts: Iterable[KindCount]) -> list[KindCount]:
    """Returns the sums of what steps have counted, by repository and kind."""
    sums: dict[tuple[str, str, str], KindCount] = {}
    for one in counts:
        key = (one.repository, one.state, one.kind)
        had = sums.get(key)
        if had is not None:
            one = msgspec.structs.replace(
                one, rows=one.rows + had.rows, bytes=one.bytes + had.bytes
            )
        sums[key] = one
    return [sums[key] for key in sorted(sums)]


def _instances(source: RowSource) -> list[_Instance]:
    """Returns the repositories of a store, those that are not listed too, ordered by instance."""
    found = {ROOT_INSTANCE: _Instance(ROOT_INSTANCE)}
    for row in list_deleted(source):
        instance = InstanceId(row.instance)
        found[instance] = _Instance(instance, row.name, "deleted")
    for entry in rows_of(source, INSTANCES_PLACE):
        instance = InstanceId(entry.key)
        try:
            name = REPOSITORY_FORM.decode(entry.value).name
        except (Corrupt, NewerFormat):
            name = f"(unreadable {entry.key.hex()})"
        found.setdefault(instance, _Instance(instance, name, "unlisted"))
    for entry in rows_of(source, REPOSITORIES_PLACE):
        instance = read_instance(entry)
        found[instance] = _Instance(instance, entry.key.decode())
    return [found[key] for key in sorted(found)]


def _count_some(
    source: RowSource, instance: InstanceId, cursor: bytes
) -> tuple[Counter[int], Counter[int], bytes | None]:
    """Counts some pages of an instance by a walk."""
    rows: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    further: bytes | None = cursor
    for _ in range(STATS_PAGES_MAX):
        page = source.walk(bytes(instance), further or b"", COPY_PAGE_ROWS_MAX)
        for place, entry in page.rows:
            rows[kind_of(place)] += 1
            sizes[kind_of(place)] += len(entry.value)
        further = page.next_cursor
        if further is None:
            break
    return rows, sizes, further


def _count_quickly(source: RowSource, instance: _Instance) -> Iterable[KindCount]:
    rows: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    cut: set[int] = set()
    places = ROOT_PLACES if instance.id == ROOT_INSTANCE else row_places(source, instance.id)
    for place in places:
        kind = kind_of(place)
        if kind in cut:
            continue
        for entry in rows_of(source, place):
            rows[kind] += 1
            sizes[kind] += len(entry.value)
            if rows[kind] == STATS_ROWS_MAX:
                cut.add(kind)
                break
    for kind in sorted(rows):
        accuracy: Accuracy = "at least" if kind in cut else "exact"
        yield KindCount(
            instance.name, instance.state, _name_of(kind), rows[kind], sizes[kind], accuracy
        )
    if instance.id != ROOT_INSTANCE:
        for bulk in _BULK_PLACES:
            found = _estimate(source, instance, bulk)
            if found.rows:
                yield found


def _estimate(source: RowSource, instance: _Instance, kind: Kind) -> KindCount:
    """Counts objects or key packs: all if they are few, else those of a sample of partitions."""
    rows = size = 0
    cursor: bytes | None = b""
    pages = 0
    prefix = bytes(partition(instance.id, kind))
    while cursor is not None and rows < STATS_OBJECTS_MAX and pages < STATS_PAGES_MAX:
        page = source.walk(prefix, cursor, COPY_PAGE_ROWS_MAX)
        rows += len(page.rows)
        size += sum(len(entry.value) for _, entry in page.rows)
        cursor = page.next_cursor
        pages += 1
    if cursor is None:
        return KindCount(instance.name, instance.state, _name_of(kind), rows, size)
    count = _BULK_PLACES[kind]
    step = max(count // STATS_PARTITIONS, 1)
    width = (count - 1).bit_length() // 8
    rows = size = 0
    for number in range(0, count, step):
        for entry in _entries(source, partition(instance.id, kind, number.to_bytes(width, "big"))):
            rows += 1
            size += len(entry.value)
    name = _name_of(kind)
    return KindCount(instance.name, instance.state, name, rows * step, size * step, "about")


def _entries(source: RowSource, place: Partition) -> Iterable[Entry]:
    further: bytes | None = b""
    while further is not None:
        page = source.scan(place, further, None, COPY_PAGE_ROWS_MAX)
        yield from page.entries
        further = page.next_start


def _name_of(kind: int) -> str:
    try:
        return Kind(kind).name.lower().replace("_", " ")
    except ValueError:
        return f"unknown kind {kind}"


def _read_token(token: str | None) -> tuple[bytes, bytes]:
    if token is None:
        return b"", b""
    instance, _, cursor = token.partition(".")
    try:
        found = bytes.fromhex(instance), bytes.fromhex(cursor)
    except ValueError:
        raise Invalid("the token is not one of a count") from None
    if len(found[0]) != INSTANCE_ID_BYTES:
        raise Invalid("the token is not one of a count")
    return found
