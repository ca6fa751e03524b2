"""Records of several tokens and of a commit as one ordered stream: the newest of each key counts.

A source reads ahead in pages that grow while it is read in order, and jumps over what a caller does
not want to see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, Protocol

from lochan.base.ids import StagingToken
from lochan.codec.elements import FILE_REMOVE
from lochan.index.layers import Index, find_many, read_page
from lochan.index.source import NodeSource
from lochan.persist.staged import StagedRecords, is_cleared

Items = list[tuple[bytes, bytes]]

ReadItems = Callable[[bytes, int], tuple[Items, bytes | None]]
"""Reads at most so many items from a key on, and where the next ones begin, None at the end."""

_KEY: Final = itemgetter(0)

# The first read of a source, and the one after a jump; each further one is twice as long.
_READ_FIRST: Final = 32
_READ_MAX: Final = 1_024


class Source(Protocol):
    """An ordered source of items."""

    def peek(self) -> bytes | None:
        """Returns the key of the next item, None at the end."""
        ...

    def take(self) -> bytes:
        """Returns the value of the next item and goes on; `peek` has found it."""
        ...


class RecordSource:
    """One ordered source of items that are read in pages."""

    def __init__(self, read: ReadItems, start: bytes) -> None:
        self._read = read
        self._items: Items = []
        self._at = 0
        self._further: bytes | None = start
        self._size = _READ_FIRST

    def peek(self) -> bytes | None:
        """Returns the key of the next item, None at the end."""
        while self._at >= len(self._items):
            if self._further is None:
                return None
            self._items, self._further = self._read(self._further, self._size)
            self._at, self._size = 0, min(2 * self._size, _READ_MAX)
        return self._items[self._at][0]

    def take(self) -> bytes:
        """Returns the value of the next item and goes on; `peek` has found it."""
        self._at += 1
        return self._items[self._at - 1][1]

    def seek(self, key: bytes) -> None:
        """Goes on to the first item that is not before a key."""
        if self._items and self._items[-1][0] >= key:
            self._at = max(self._at, bisect_left(self._items, key, key=_KEY))
        elif self._further is not None:
            self._items, self._at = [], 0
            self._further, self._size = max(key, self._further), _READ_FIRST
        else:
            self._at = len(self._items)


class Layers:
    """Sources that hide each other, the first one all others."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def next(self) -> tuple[bytes, bytes] | None:
        """Returns the next key with the newest of its items, None at the end."""
        key = self.peek()
        if key is None:
            return None
        newest: bytes | None = None
        for source in self._sources:
            if source.peek() == key:
                item = source.take()
                newest = item if newest is None else newest
        return None if newest is None else (key, newest)

    def take(self, limit: int) -> Items:
        """Returns the next items, fewer than `limit` at the end only."""
        items: Items = []
        while len(items) < limit:
            found = self.next()
            if found is None:
                break
            items.append(found)
        return items

    def peek(self) -> bytes | None:
        """Returns the next key, None at the end."""
        return min((key for key in (one.peek() for one in self._sources) if key), default=None)


def token_source(
    records: StagedRecords, token: StagingToken, start: bytes, end: bytes | None
) -> RecordSource:
    """Returns the records of a token as a source."""

    def read(first: bytes, limit: int) -> tuple[Items, bytes | None]:
        page = records.scan(token, first, end, limit)
        return [(entry.key, entry.value) for entry in page.entries], page.next_start

    return RecordSource(read, start)


def shown_source(
    records: StagedRecords,
    token: StagingToken,
    nodes: NodeSource,
    index: Index,
    start: bytes,
    end: bytes | None,
) -> RecordSource:
    """Returns what a branch shows where a token has records: under cleared ones, what is below."""

    def read(first: bytes, limit: int) -> tuple[Items, bytes | None]:
        page = records.scan(token, first, end, limit)
        keys = [entry.key for entry in page.entries if is_cleared(entry.value)]
        found = dict(zip(keys, find_many(nodes, index, keys), strict=True)) if keys else {}
        items = [
            (entry.key, found[entry.key] or FILE_REMOVE if entry.key in found else entry.value)
            for entry in page.entries
        ]
        return items, page.next_start

    return RecordSource(read, start)


def index_source(nodes: NodeSource, index: Index, start: bytes, end: bytes | None) -> RecordSource:
    """Returns the elements of an index as a source."""

    def read(first: bytes, limit: int) -> tuple[Items, bytes | None]:
        items = read_page(nodes, index, first, end, limit)
        return items, items[-1][0] + b"\0" if len(items) == limit else None

    return RecordSource(read, start)
