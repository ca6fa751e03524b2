"""Rows that change: read with their stamps, and written by one protocol.

Every kind of row (references, claims, settings, the list of repositories) is a `RowTable`. A writer
gives each write a random *operation id* and stores it in the row, so that a write whose reply was
lost can be recognised later. The steps of `RowTable.swap`, and what a crash after each leaves:

1. Read the row with its stamp. (A crash leaves nothing.)
2. `decide` on the row: either a `Write`, the row to store and the answer that the caller gets for
   it, or `Done`, an answer without a write. `decide` may refuse by raising. (Nothing.)
3. Write the row on condition that its stamp is still that of step 1. (A crash before the write
   leaves nothing; after it, the new row, which contains the operation id.)
4. Won: return the answer. Lost: go to step 1. Unavailable: nothing was written, raise it.
   **Unknown: send the same conditional write again** until it is won or lost. The condition makes
   this safe: of several copies of one write at most one can win. `Unavailable` is about the last
   copy only; an earlier one may have taken effect, so the write is sent again after it, too.
   If a copy wins, the row is written, and earlier copies that are still under way can only lose.
   If it loses, the row has changed since step 1, and step 5 finds out by whose write.
5. Read the row and look for the operation id (`find_done`): in the row and wherever ids go when
   they leave the row. Found: an earlier copy had won, return its answer. Not found: no copy has won
   and none can any more, go to step 1. To compare the present row with the written one is not
   enough, because other writers may have replaced it since.

If the time for retries ends in step 4 or 5, the outcome stays unknown and `Unknown` is raised; if
it ends between two rounds, nothing was written and `Exhausted` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec

from lochan.base.errors import Corrupt, Exhausted, LochanError, NewerFormat, Unavailable, Unknown
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.codec.forms import Row, RowForm, encode_row
from lochan.kv.store import ABSENT, Entry, Lost, Outcome, Partition, SetIf, Stamp, Store, Won
from lochan.persist.retry import Retry

Answer = TypeVar("Answer")


class Stamped(msgspec.Struct, Generic[Row], frozen=True, gc=False):
    """A row and the stamp under which it was read or written."""

    row: Row
    stamp: Stamp


class Write(msgspec.Struct, Generic[Row, Answer], frozen=True):
    """A decision: store this row; `answer` is returned if it takes effect."""

    row: Row
    answer: Answer


class Done(msgspec.Struct, Generic[Answer], frozen=True):
    """A decision: there is nothing to write, and this is the answer."""

    answer: Answer


class UnreadableRow(msgspec.Struct, frozen=True):
    """A row that could not be decoded, and why."""

    key: bytes
    error: Corrupt | NewerFormat


class RowPage(msgspec.Struct, Generic[Row], frozen=True):
    """One page of a scan; `next_start` is where the next page begins, None at the end."""

    rows: tuple[Stamped[Row], ...]
    unreadable: tuple[UnreadableRow, ...]
    next_start: bytes | None


class Doubt(msgspec.Struct, frozen=True):
    """What is unknown if the reply to a write is lost for good, and what the caller should do."""

    effect: str
    remedy: str

    def error(self, reason: str) -> Unknown:
        """Returns the error; the reason is not shown to clients."""
        text = f"it is unknown whether {self.effect}"
        return Unknown(f"{text} ({reason}); {self.remedy}", public=f"{text}; {self.remedy}")


def send_until_known(
    send: Callable[[], Outcome],
    find_done: Callable[[], Done[Answer] | None],
    retry: Retry,
    doubt: Doubt,
    *,
    in_doubt: bool = False,
) -> Won | Lost | Done[Answer]:
    """Steps 3 to 5: sends a conditional write until it is known what became of it.

    `in_doubt` is True if the caller has sent the write already and the reply was lost.
    """
    trouble: LochanError
    while True:
        try:
            outcome = send()
            if isinstance(outcome, Won) or not in_doubt:
                return outcome
            return find_done() or outcome
        except Unknown as error:
            in_doubt, trouble = True, error
        except (Exhausted, Unavailable) as error:
            # This attempt had no effect, but an earlier one may have had one.
            if not in_doubt:
                raise
            trouble = error
        try:
            retry.again()
        except Exhausted as error:
            # The log of the server shows what the store reported last.
            raise doubt.error(error.message) from trouble


class RowTable(Generic[Row]):
    """The rows of one kind in one partition; a key is bytes, or a text stored as UTF-8.

    `key_of` returns the key of a row, so that a row stored under the key of another is noticed.
    """

    def __init__(
        self, store: Store, place: Partition, form: RowForm[Row], key_of: Callable[[Row], bytes]
    ) -> None:
        self._store = store
        self._place = place
        self._form = form
        self.key_of = key_of

    def fetch(self, key: str | bytes) -> Stamped[Row] | None:
        """Returns a row, None if there is none."""
        entry = self._store.get(self._place, _raw(key))
        return None if entry is None else self.read(entry)

    def fetch_many(self, keys: Sequence[str | bytes]) -> list[Stamped[Row] | None]:
        """Returns rows in the order of their keys, in as few round trips as the store allows."""
        return [None if entry is None else self.read(entry) for entry in self._entries(keys)]

    def scan(self, start: bytes, limit: int, end: bytes | None = None) -> RowPage[Row]:
        """Returns one page of rows in the order of their keys; one that is unreadable apart."""
        page = self._store.scan(self._place, start, end, limit)
        rows: list[Stamped[Row]] = []
        unreadable: list[UnreadableRow] = []
        for entry in page.entries:
            try:
                rows.append(self.read(entry))
            except (Corrupt, NewerFormat) as error:
                unreadable.append(UnreadableRow(entry.key, error))
        return RowPage(tuple(rows), tuple(unreadable), page.next_start)

    def read(self, entry: Entry) -> Stamped[Row]:
        """Decodes an entry of the store; an error names the row."""
        try:
            row = self._form.decode(entry.value)
        except (Corrupt, NewerFormat) as error:
            raise type(error)(f"the row of the {self._name(entry.key)}: {error.message}") from None
        if self.key_of(row) != entry.key:
            raise Corrupt(f"the row of the {self._name(entry.key)} is that of another key")
        return Stamped(row, entry.stamp)

    def update(self, row: Row, expected: Stamped[Row] | None) -> Outcome:
        """Sends one conditional write of a row; `swap` also finds out what became of it."""
        write = self.condition(row, expected)
        return self._store.set_if(write.partition, write.key, write.value, write.expected)

    def condition(self, row: Row, expected: Stamped[Row] | None) -> SetIf:
        """Returns the write of a row if it is still as it was read; None expects no row."""
        stamp = ABSENT if expected is None else expected.stamp
        return SetIf(self._place, self.key_of(row), encode_row(row), stamp)

    def remove(self, found: Stamped[Row]) -> Outcome:
        """Deletes a row if it is still as it was read."""
        return self._store.delete_if(self._place, self.key_of(found.row), found.stamp)

    def swap(
        self,
        key: str | bytes,
        decide: Callable[[Stamped[Row] | None], Write[Row, Answer] | Done[Answer]],
        retry: Retry,
        doubt: Doubt,
        *,
        find_done: Callable[[Write[Row, Answer]], Done[Answer] | None] | None = None,
        read: Callable[[], Stamped[Row] | None] | None = None,
        assume_absent: bool = False,
        report: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Reads a row, decides, writes it if it is unchanged; the steps are above.

        `find_done` may be left out if `decide` itself recognises a row that this operation wrote.
        `read` replaces the plain read of step 1. With `assume_absent` the first round expects that
        there is no row, and does not read. `report` gets the answer if the write took effect; after
        a lost reply it gets that of `find_done`.
        """
        read_row = read or partial(self.fetch, key)
        found = None if assume_absent else read_row()
        while True:
            decision = decide(found)
            if isinstance(decision, Done):
                return decision.answer
            settled = send_until_known(
                partial(self.update, decision.row, found),
                partial(find_done, decision)
                if find_done is not None
                else partial(self._decide_again, key, decide),
                retry,
                doubt,
            )
            if not isinstance(settled, Lost):
                answer = decision.answer if isinstance(settled, Won) else settled.answer
                if report is not None:
                    report(answer)
                return answer
            retry.again(at_once=retry.attempts == 1)
            current = settled.current if read is None else None
            # What the write has lost to, if the store returned it.
            found = self.read(current) if isinstance(current, Entry) else read_row()

    def _decide_again(
        self,
        key: str | bytes,
        decide: Callable[[Stamped[Row] | None], Write[Row, Answer] | Done[Answer]],
    ) -> Done[Answer] | None:
        decision = decide(self.fetch(key))
        return decision if isinstance(decision, Done) else None

    def _entries(self, keys: Sequence[str | bytes]) -> list[Entry | None]:
        step = self._store.capabilities.read_items_max
        entries: list[Entry | None] = []
        for start in range(0, len(keys), step):
            names = [(self._place, _raw(key)) for key in keys[start : start + step]]
            entries += self._store.get_many(names)
        return entries

    def _name(self, key: bytes) -> str:
        return f"{self._form.noun} {key.decode('utf-8', 'backslashreplace')!r}"


def _raw(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def scan_all(
    store: Store,
    place: Partition,
    start: bytes = b"",
    end: bytes | None = None,
    limit: int = PAGE_ENTRIES_MAX,
) -> Iterator[Entry]:
    """Yields the rows of [start, end) in a partition, read in pages of `limit`."""
    further: bytes | None = start
    while further is not None:
        page = store.scan(place, further, end, limit)
        yield from page.entries
        further = page.next_start


def add_row(table: RowTable[Row], row: Row, retry: Retry, doubt: Doubt) -> bool:
    """Adds a row that only this caller writes; returns False if there is another one already."""

    def decide(found: Stamped[Row] | None) -> Write[Row, bool] | Done[bool]:
        return Write(row, True) if found is None else Done(found.row == row)

    return table.swap(table.key_of(row), decide, retry, doubt, assume_absent=True)
