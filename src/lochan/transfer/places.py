"""Which partitions a store has, and what makes a row of each of them whole.

*Bulk* are objects and key packs: rows that never change, most of what is stored. All others are
*rows*: they change, and there are few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lochan.access.records import ACCESS_PARTITION
from lochan.access.revision import REVISION_KEY
from lochan.base.errors import Corrupt
from lochan.base.ids import INSTANCE_ID_BYTES, ROOT_INSTANCE, InstanceId, ObjId
from lochan.base.limits.maintenance import COPY_PAGE_ROWS_FIRST
from lochan.codec.commits import check_any_object
from lochan.codec.forms import CHECKSUM_BYTES, add_checksum
from lochan.kernel.repository import DELETED_PLACE, INSTANCES_PLACE, REPOSITORIES_PLACE
from lochan.kv.format import FORMAT_KEY, FORMAT_PARTITION
from lochan.kv.store import Entry, Kind, Partition, partition
from lochan.persist.imports import IMPORTS_SUFFIX
from lochan.transfer.sources import RowSource

POSITION_KEY: Final = b"copy"
"""Beside the mark of the format: how far a copy has come."""

ROOT_PLACES: Final = (
    ACCESS_PARTITION,
    partition(ROOT_INSTANCE, Kind.CLAIMS),
    partition(ROOT_INSTANCE, Kind.CURSORS),
    DELETED_PLACE,
    INSTANCES_PLACE,
    REPOSITORIES_PLACE,
    FORMAT_PARTITION,
)
"""The partitions of rows that belong to no repository."""

_FIXED: Final = (
    (Kind.META, b""),
    (Kind.REFERENCES, b""),
    (Kind.LOG, b""),
    (Kind.CLAIMS, b""),
    (Kind.CURSORS, b""),
    (Kind.UPLOADS, b""),
    (Kind.UPLOADS, IMPORTS_SUFFIX),
)
_BULK: Final = (Kind.OBJECTS, Kind.KEY_PACKS)
_SPREAD_BYTES: Final = 2
_CHECKED: Final = frozenset((*_FIXED, (Kind.STAGING, b"")))


def row_places(source: RowSource, instance: InstanceId) -> Iterator[Partition]:
    """Yields the partitions of rows of a repository; those of staged files by their tokens."""
    for kind, suffix in _FIXED:
        yield partition(instance, kind, suffix)
    tokens = partition(instance, Kind.STAGING)
    yield tokens
    for entry in rows_of(source, tokens):
        yield partition(instance, Kind.STAGING, entry.key)


def rows_of(source: RowSource, place: Partition) -> Iterator[Entry]:
    """Yields the rows of a partition in the order of their keys, without those of a copy."""
    further: bytes | None = b""
    while further is not None:
        page = source.scan(place, further, None, COPY_PAGE_ROWS_FIRST)
        for entry in page.entries:
            if place != FORMAT_PARTITION or entry.key not in (FORMAT_KEY, POSITION_KEY):
                yield entry
        further = page.next_start


def kind_of(place: Partition) -> int:
    """Returns the kind of a partition, which may be one that this Lochan does not know."""
    return place[INSTANCE_ID_BYTES]


def is_bulk(place: Partition) -> bool:
    """Returns whether a partition holds objects or key packs."""
    return kind_of(place) in _BULK


def check_row(place: Partition, entry: Entry) -> None:
    """Raises Corrupt unless a row is as it was written, as far as its own bytes can show it.

    Staged records have no checksum, and what an unknown partition has is not known.
    """
    kind, suffix = kind_of(place), place[INSTANCE_ID_BYTES + 1 :]
    if kind == Kind.OBJECTS:
        if suffix != entry.key[:_SPREAD_BYTES]:
            raise Corrupt(f"the object {entry.key.hex()} is in the partition of another")
        check_any_object(ObjId(entry.key), entry.value)
        return
    is_rows = place in ROOT_PLACES or (kind, suffix) in _CHECKED or kind == Kind.KEY_PACKS
    if not is_rows or (place == ACCESS_PARTITION and entry.key == REVISION_KEY):
        return
    if add_checksum(entry.value[:-CHECKSUM_BYTES]) != entry.value:
        raise Corrupt(
            f"the row {entry.key[:80]!r} of the kind {chr(kind)!r} is not as it was written: its "
            "checksum differs"
        )
