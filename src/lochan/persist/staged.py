"""Staged records: the changes of files that no commit contains yet.

Each staging token has a partition of its own. The key of a record is the key of the file in the
index, its value the element that a commit will put there; so a commit takes records as they are.
The record of a deletion begins with the flag of a removal, too, and names its operation.

A *cleared* record is what a reset leaves: nothing is staged under its key. It hides the records of
older tokens, and the branch shows there what its head has, whatever head that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.ids import InstanceId, StagingToken
from lochan.base.limits.staging import STAGED_RECORDS_READ
from lochan.codec.elements import FILE_REMOVE, decode_file, is_remove
from lochan.codec.rows import ReferenceRow
from lochan.kv.store import (
    ABSENT,
    Adds,
    Entry,
    Expected,
    Kind,
    Outcome,
    Page,
    Partition,
    SetIf,
    Store,
    partition,
)

NO_OBJECTS: Final = Adds((), 0)
"""For a record that brings no object with it."""

# The first byte of a cleared record; no element of a file has this flag.
_CLEARED: Final = b"\x04"


def tokens_of(row: ReferenceRow) -> tuple[StagingToken, ...]:
    """Returns the tokens of a branch, the newest first: what a later one holds hides the others."""
    staging = (row.staging_token,) if row.staging_token else ()
    return tuple([StagingToken(token) for token in (*staging, *reversed(row.sealed_tokens))])


def tombstone(operation: bytes) -> bytes:
    """Returns the record of a deletion."""
    return FILE_REMOVE + operation


def cleared(operation: bytes) -> bytes:
    """Returns the record of a reset."""
    return _CLEARED + operation


def is_cleared(record: bytes) -> bool:
    """Returns whether a record states that nothing is staged."""
    return record[:1] == _CLEARED


def operation_of(record: bytes) -> bytes:
    """Returns the operation that wrote a record."""
    if is_remove(record) or is_cleared(record):
        return record[1:]
    return decode_file(record).operation


class RecordWrite(msgspec.Struct, frozen=True, gc=False):
    """A record to be put if the present one is as expected, together with objects it names."""

    key: bytes
    value: bytes
    expected: Expected = ABSENT
    objects: Adds = NO_OBJECTS


class StagedRecords:
    """The staged records of one repository."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        self._store = store
        self._instance = instance

    def place(self, token: StagingToken) -> Partition:
        """Returns the partition of a token."""
        return partition(self._instance, Kind.STAGING, token)

    def fetch(
        self, tokens: Sequence[StagingToken], keys: Sequence[bytes]
    ) -> list[list[Entry | None]]:
        """Returns for each token its records of the keys, in as few round trips as possible."""
        places = [self.place(token) for token in tokens]
        names = [(place, key) for place in places for key in keys]
        step = self._store.capabilities.read_items_max
        found: list[Entry | None] = []
        for start in range(0, len(names), step):
            found += self._store.get_many(names[start : start + step])
        width = len(keys)
        return [found[at * width : (at + 1) * width] for at in range(len(tokens))]

    def scan(
        self,
        token: StagingToken,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = STAGED_RECORDS_READ,
    ) -> Page:
        """Returns one page of a token's records."""
        return self._store.scan(self.place(token), start, end, limit)

    def iterate(
        self, token: StagingToken, start: bytes = b"", end: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields the records of a token, in order, read in pages."""
        further: bytes | None = start
        while further is not None:
            page = self.scan(token, further, end)
            for entry in page.entries:
                yield entry.key, entry.value
            further = page.next_start

    def is_empty(self, token: StagingToken) -> bool:
        """Returns whether a token has no record."""
        further: bytes | None = b""
        while further is not None:
            page = self.scan(token, further, None, 1)
            if page.entries:
                return False
            further = page.next_start
        return True

    def put_each(self, token: StagingToken, writes: Sequence[RecordWrite]) -> list[Outcome]:
        """Puts records, each if the present one is as expected; at most one batch of them."""
        place = self.place(token)
        changes = [(one.objects, SetIf(place, one.key, one.value, one.expected)) for one in writes]
        if len(changes) == 1:
            objects, row = changes[0]
            if objects.items:
                return [self._store.apply(objects, row)]
            return [self._store.set_if(place, row.key, row.value, row.expected)]
        return self._store.apply_each(changes)

    def drop(self, token: StagingToken) -> None:
        """Drops all records of a token."""
        self._store.drop_partition(self.place(token))
