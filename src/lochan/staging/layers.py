"""Records of several tokens and of a commit as one ordered stream: the newest of each key counts.

A source reads ahead in pages that grow while it is read in order, and jumps over what a caller does
not want to see. Where only one source has items, they are passed on as a run, not one by one: most
files of a listing are those of the head, or those of one token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, Protocol

from lochan.base.ids import StagingToken
from lochan.codec.elements import FILE_REMOVE
from lochan.index.layers import Index, read_page
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

    def take_run(self, bound: bytes | None, limit: int | None = None) -> Items:
        """Returns the next item and those after it that are at hand, all before a bound.

        `peek` has found the next item, and it is before the bound.
        """
        ...

    def seek(self, key: bytes) -> None:
        """Goes on to the first item that is not before a key."""
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

    def take_run(self, bound: bytes | None, limit: int | None = None) -> Items:
        """Returns the next item and those after it that are at hand, all before a bound."""
        run = _run(self._items, self._at, bound, limit)
        self._at += len(run)
        return run

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
        # A run of items that were taken from the sources, and the next one of it.
        self._items: Items = []
        self._at = 0

    def peek(self) -> bytes | None:
        """Returns the next key, None at the end."""
        if self._at == len(self._items):
            self._items, self._at = self._next_run(), 0
        return self._items[self._at][0] if self._items else None

    def next(self) -> tuple[bytes, bytes] | None:
        """Returns the next key with the newest of its items, None at the end."""
        if self.peek() is None:
            return None
        self._at += 1
        return self._items[self._at - 1]

    def take_run(self, bound: bytes | None, limit: int | None = None) -> Items:
        """Returns the next item and those after it that are at hand, all before a bound."""
        run = _run(self._items, self._at, bound, limit)
        self._at += len(run)
        return run

    def seek(self, key: bytes) -> None:
        """Goes on to the first item that is not before a key."""
        self._at = bisect_left(self._items, key, self._at, key=_KEY)
        for source in self._sources:
            source.seek(key)

    def put_back(self, count: int) -> None:
        """Makes the last items of a run that was just taken the next ones again."""
        self._at -= count

    def take(self, limit: int) -> Items:
        """Returns the next items, fewer than `limit` at the end only."""
        items: Items = []
        while len(items) < limit and self.peek() is not None:
            items += self.take_run(None, limit - len(items))
        return items

    def _next_run(self) -> Items:
        """Returns the items of one source up to the next key of another, or those of one key."""
        heads = [(key, at) for at, one in enumerate(self._sources) if (key := one.peek())]
        if not heads:
            return []
        heads.sort()
        key, first = heads[0]
        if len(heads) == 1:
            return self._sources[first].take_run(None)
        bound = heads[1][0]
        if bound != key:
            return self._sources[first].take_run(bound)
        runs = [self._sources[at].take_run(None, 1) for head, at in heads if head == key]
        return runs[0]


def _run(items: Items, at: int, bound: bytes | None, limit: int | None) -> Items:
    end = len(items) if limit is None else min(len(items), at + limit)
    if bound is not None and items[end - 1][0] >= bound:
        end = bisect_left(items, bound, at, end, key=_KEY)
    return items[at:end]


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
    find_below: Callable[[Sequence[bytes]], Sequence[bytes | None]],
    start: bytes,
    end: bytes | None,
) -> RecordSource:
    """Returns what a branch shows where a token has records: under cleared ones, what is below."""

    def read(first: bytes, limit: int) -> tuple[Items, bytes | None]:
        page = records.scan(token, first, end, limit)
        keys = [entry.key for entry in page.entries if is_cleared(entry.value)]
        found = dict(zip(keys, find_below(keys), strict=True)) if keys else {}
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
