"""Where a copy reads: a store that this process has open, or one that a server has open."""

from __future__ import annotations

from typing import Final, Protocol

from lochan.base.ids import InstanceId
from lochan.kv.store import Entry, Kind, Page, Partition, Store, partition
from lochan.kv.walk import Located, WalkPage, find_walk, foreign_cursor

_KEY_PACK_PLACES: Final = 256
_OBJECT_PLACES: Final = 65_536


class RowSource(Protocol):
    """Rows by partition, and across the partitions of one instance."""

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """As `Store.scan`."""
        ...

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """As `kv.walk`; the prefix is an instance id, alone or with the kind of objects."""
        ...


class StoreSource:
    """The rows of an open store, also of one that cannot read across partitions.

    For such a store a walk reads the partitions of objects and of key packs one after the other. It
    finds no partition that this Lochan does not know.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._walk = find_walk(store)

    def scan(self, partition: Partition, start: bytes, end: bytes | None, limit: int) -> Page:
        """Passes on."""
        return self._store.scan(partition, start, end, limit)

    def walk(self, prefix: bytes, cursor: bytes, limit: int) -> WalkPage:
        """Passes on, or reads partitions in turn: at least one, until the page is full."""
        if self._walk is not None:
            return self._walk(prefix, cursor, limit)
        if cursor and len(cursor) < 3:
            raise foreign_cursor()
        at, start = int.from_bytes(cursor[:3], "big"), cursor[3:]
        rows: list[Located] = []
        while (place := _place(prefix, at)) is not None:
            page = self._store.scan(place, start, None, limit - len(rows))
            rows += [(place, entry) for entry in page.entries]
            if page.next_start is not None:
                return WalkPage(rows, at.to_bytes(3, "big") + page.next_start)
            at, start = at + 1, b""
            if len(rows) >= limit or at % _KEY_PACK_PLACES == 0:
                return WalkPage(rows, at.to_bytes(3, "big"))
        return WalkPage(rows, None)


def find_row(source: RowSource, place: Partition, key: bytes) -> Entry | None:
    """Returns a row by a scan for it alone."""
    found = source.scan(place, key, key + b"\0", 1).entries
    return found[0] if found else None


def _place(prefix: bytes, at: int) -> Partition | None:
    instance = InstanceId(prefix[:16])
    if at < _OBJECT_PLACES:
        return partition(instance, Kind.OBJECTS, at.to_bytes(2, "big"))
    at -= _OBJECT_PLACES
    if len(prefix) > len(instance) or at >= _KEY_PACK_PLACES:
        return None
    return partition(instance, Kind.KEY_PACKS, at.to_bytes(1, "big"))
