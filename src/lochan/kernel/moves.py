"""The moves of a reference that are no commits, in its row and in the log.

A move enters the row by the same compare-and-swap that makes it, so none that took effect is ever
missing. It is copied to the log, under name, incarnation and version, before it leaves the row;
copying twice is harmless. Row and log together are the ref-log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import InstanceId, ObjId
from lochan.base.limits.commits import MOVES_MAX, PREVIOUS_POINTERS_MAX
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.codec.forms import encode_row
from lochan.codec.rows import MOVE_FORM, Move, MoveRow, ReferenceRow
from lochan.kv.store import Entry, Item, Kind, Store, partition
from lochan.persist.rows import scan_all

_NUMBER_BYTES: Final = 8


class UnreadableMove(msgspec.Struct, frozen=True, gc=False):
    """A copied move of a newer format: its place is known from its key, what it did is not."""

    version: int
    reason: str


LoggedMove = Move | UnreadableMove


UNMOVED: Final = "unmoved"
"""The kind of a move that changes no pointer: a request with a key found nothing to do.

It is in the row so that a repetition gets the same answer, and in no ref-log.
"""


class Once(msgspec.Struct, frozen=True, gc=False):
    """A move that is made once however often it is tried, by its operation, in one incarnation."""

    operation: bytes
    incarnation: int


class MoveLog:
    """The `log` partition of one repository."""

    def __init__(self, store: Store, instance: InstanceId) -> None:
        self._store = store
        self._place = partition(instance, Kind.LOG)

    def copy(self, row: ReferenceRow, moves: Sequence[Move]) -> None:
        """Copies moves of a row; idempotent, because a move never changes."""
        if moves:
            self._store.put_many([self._item(row, move) for move in moves])

    def fetch_after(self, name: str, incarnation: int, version: int) -> list[Move]:
        """Returns the copied moves of one incarnation that are younger than a version."""
        prefix = _prefix(name, incarnation)
        start, end = prefix + (version + 1).to_bytes(8, "big"), prefix + b"\xff" * 9
        entries = scan_all(self._store, self._place, start, end, SCAN_ENTRIES_MAX)
        return [read_move(entry).move for entry in entries]

    def iterate(
        self, name: str, start: tuple[int, int], end: tuple[int, int] | None
    ) -> Iterator[tuple[int, Move]]:
        """Yields the copied moves of a name, of all incarnations, oldest first, each with its own.

        They are those from `start` on and before `end`, each an incarnation and a version.
        """
        prefix = name.encode() + b"\0"
        stop = prefix + b"\xff" * 17 if end is None else _place(prefix, _number(end))
        first = _place(prefix, _number(start))
        for entry in scan_all(self._store, self._place, first, stop, SCAN_ENTRIES_MAX):
            row = read_move(entry)
            yield row.incarnation, row.move

    def find(self, name: str, incarnation: int, version: int) -> Entry | None:
        """Returns the row of one copied move, None if there is none."""
        key = _prefix(name, incarnation) + version.to_bytes(_NUMBER_BYTES, "big")
        return self._store.get(self._place, key)

    def fetch_before(
        self, name: str, incarnation: int, version: int, limit: int
    ) -> list[tuple[int, LoggedMove]]:
        """Returns moves of all incarnations of a name that are older than one, newest first.

        Each comes with its incarnation; one of a newer format does not hide the others. At least
        one comes if there is any, at most `limit`. Stores scan upwards only; so unless all fit into
        one page, windows below the place are tried: a small one first, further down and larger
        where it is empty, halved where it holds too many.
        """
        prefix = name.encode() + b"\0"
        high = _number((incarnation, version))
        window = high
        while high > 0:
            low = max(0, high - window)
            page = self._store.scan(self._place, _place(prefix, low), _place(prefix, high), limit)
            if page.next_start is not None and window > 1:
                window = limit if low == 0 and window > limit else window // 2
            elif page.entries:
                return [_read_logged(entry) for entry in reversed(page.entries)]
            else:
                high, window = low, window * 4
        return []

    def _item(self, row: ReferenceRow, move: Move) -> Item:
        key = _prefix(row.name, row.incarnation) + move.version.to_bytes(8, "big")
        return (self._place, key, encode_row(MoveRow(1, row.name, row.incarnation, move)))


def moves_since(
    log: MoveLog, name: str, incarnation: int, version: int, row: ReferenceRow | None
) -> list[Move]:
    """Returns the moves of one incarnation after a version: of its row, of the log if needed.

    The row must be read before: a move is copied to the log before it leaves the row.
    """
    if row is None or row.incarnation != incarnation:
        return log.fetch_after(name, incarnation, version)
    since = [move for move in row.moves if move.version > version]
    if len(since) == MOVES_MAX:
        since += log.fetch_after(name, incarnation, version)
    return since


def moved(row: ReferenceRow, move: Move, **changes: object) -> ReferenceRow:
    """Returns the row after a move; the oldest moves leave it, so they must be in the log."""
    return msgspec.structs.replace(
        row,
        pointer=move.new,
        version=move.version,
        operation=move.operation,
        previous=row.previous if move.kind == UNMOVED else _previous(row, move.when_us),
        moves=(*row.moves, move)[-MOVES_MAX:],
        **changes,
    )


def left_by(row: ReferenceRow, incarnation: int, move: Move) -> ReferenceRow:
    """Returns a row as it was after one of its earlier moves, in any incarnation."""
    return msgspec.structs.replace(
        row,
        pointer=move.new,
        version=move.version,
        incarnation=incarnation,
        operation=move.operation,
        deleted=move.kind == "delete",
    )


def advanced(row: ReferenceRow, pointer: ObjId, operation: bytes, now_us: int) -> ReferenceRow:
    """Returns the row after commits; they are in history themselves and are no moves."""
    return msgspec.structs.replace(
        row,
        pointer=pointer,
        version=row.version + 1,
        operation=operation,
        previous=_previous(row, now_us),
    )


def without_tokens(row: ReferenceRow, taken: Sequence[bytes]) -> ReferenceRow:
    """Returns the row without sealed tokens whose records are in a commit."""
    if not taken:
        return row
    check(set(taken).issubset(row.sealed_tokens), "a commit takes tokens that the row has")
    left = tuple([token for token in row.sealed_tokens if token not in taken])
    return msgspec.structs.replace(row, sealed_tokens=left)


def rewritten(row: ReferenceRow, operation: bytes) -> ReferenceRow:
    """Returns the row after a change that moves no pointer."""
    return msgspec.structs.replace(row, version=row.version + 1, operation=operation)


def _previous(row: ReferenceRow, now_us: int) -> tuple[tuple[bytes, int], ...]:
    return ((row.pointer, now_us), *row.previous[: PREVIOUS_POINTERS_MAX - 1])


def _prefix(name: str, incarnation: int) -> bytes:
    return name.encode() + b"\0" + incarnation.to_bytes(8, "big")


def _place(prefix: bytes, number: int) -> bytes:
    return prefix + number.to_bytes(16, "big")


def _number(at: tuple[int, int]) -> int:
    """Returns incarnation and version as one number, in the order of keys."""
    return (at[0] << 64) + at[1]


def read_move(entry: Entry) -> MoveRow:
    """Reads a copied move; Corrupt unless it is the one that its key names."""
    row = MOVE_FORM.decode(entry.value)
    key = _prefix(row.name, row.incarnation) + row.move.version.to_bytes(_NUMBER_BYTES, "big")
    if key != entry.key:
        raise Corrupt(f"the move that is stored under {entry.key!r} is that of another key")
    return row


def place_of(key: bytes) -> tuple[str, int, int]:
    """Returns the name, incarnation and version in the key of a copied move."""
    name, numbers = key[: -2 * _NUMBER_BYTES - 1], key[-2 * _NUMBER_BYTES :]
    return (
        name.decode("utf-8", "replace"),
        int.from_bytes(numbers[:_NUMBER_BYTES], "big"),
        int.from_bytes(numbers[_NUMBER_BYTES:], "big"),
    )


def _read_logged(entry: Entry) -> tuple[int, LoggedMove]:
    try:
        row = read_move(entry)
    except NewerFormat as error:
        _, incarnation, version = place_of(entry.key)
        return incarnation, UnreadableMove(version, error.message)
    return row.incarnation, row.move
