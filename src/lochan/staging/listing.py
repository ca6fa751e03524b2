"""Listing the files of a branch: its staged records on top of its head, deleted files left out.

A page is read under one row of the branch (`reader.py`). Pages of one listing may be of different
moments.

A page must cost what it shows, also where 100,000 deleted files are before the first one. So ranges
without files to show are remembered (`hidden_runs.py`), as far as sealed tokens and the head make
them; a listing jumps over them. Deletions are usually in the staging token, which changes. Then a
listing seals the token, which changes no answer: its records are shown as before, and the next
commit takes it. The steps for a page that passes many deleted files:

1. The first page that passes LISTING_HIDDEN_MAX of them ends there, with a position to go on from,
   and notes that the branch has to be searched. So no page takes long unexpectedly.
2. The next page of the branch is long work (`is_brief`): it seals the staging token if deleted
   files of it were passed and few tokens are sealed, passes up to LISTING_PASSED_MAX deleted files,
   and notes the runs.
3. Every later page jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.errors import LochanError
from lochan.base.keys import Universe, prefix_end
from lochan.base.limits.staging import (
    BRANCH_ROWS_MAX,
    HIDDEN_RUN_MIN,
    LISTING_HIDDEN_MAX,
    LISTING_PASSED_MAX,
    LISTING_SEALED_MAX,
)
from lochan.base.names import RefName
from lochan.base.ports import NewLock
from lochan.codec.elements import FLAG_REMOVE, encode_text, is_remove
from lochan.codec.rows import ReferenceRow
from lochan.index.layers import find_many
from lochan.kernel.context import RepositoryContext
from lochan.persist.staged import tokens_of
from lochan.staging.branch_rows import BranchRows
from lochan.staging.hidden_runs import HiddenRuns, RunBase, base_of
from lochan.staging.layers import Items, Layers, index_source, shown_source
from lochan.staging.reader import BranchReader
from lochan.staging.tokens import BranchTokens

_FILES = bytes((Universe.FILES,))

# Before it are the records of jobs, which are no files.
FILES_BEGIN = _FILES + b"\x01"


class ListingRange(msgspec.Struct, frozen=True):
    """What is listed: files below a prefix, after a position."""

    prefix: str = ""
    after: str = ""
    limit: int = 1_000

    def keys(self) -> tuple[bytes, bytes | None]:
        """Returns the first key and the one before which the range ends."""
        prefix = _FILES + encode_text(self.prefix)
        start = max(prefix, FILES_BEGIN)
        if self.after:
            start = max(start, _FILES + encode_text(self.after) + b"\0")
        return start, prefix_end(prefix)


class ListingLimits(msgspec.Struct, frozen=True):
    """The limits of listings; tests set small ones."""

    hidden_max: int = LISTING_HIDDEN_MAX
    passed_max: int = LISTING_PASSED_MAX
    sealed_max: int = LISTING_SEALED_MAX
    run_min: int = HIDDEN_RUN_MIN


DEFAULT_LIMITS: Final = ListingLimits()


class Effort:
    """How many deleted files one page may still pass; shared by all reads of the page."""

    def __init__(self, limits: ListingLimits, seals: bytes | None) -> None:
        self.limits = limits
        self.seals = seals
        """The staging token that is to be sealed, if it still is that of the branch."""

        self._has_stopped = False
        self.left = limits.hidden_max if seals is None else limits.passed_max

    def stop(self) -> None:
        """Ends the page."""
        self._has_stopped = True

    def has_stopped(self) -> bool:
        """Returns whether the page has ended at a deleted file, because the effort was spent."""
        return self._has_stopped

    @property
    def is_spent(self) -> bool:
        """Whether the page has to end at the next deleted file that is in no known run."""
        return self.left <= 0


class BranchListings:
    """Lists the files of the branches of one repository; for any number of threads."""

    def __init__(
        self,
        context: RepositoryContext,
        rows: BranchRows,
        tokens: BranchTokens,
        reader: BranchReader,
        new_lock: NewLock,
        limits: ListingLimits = DEFAULT_LIMITS,
    ) -> None:
        self._context = context
        self._rows = rows
        self._tokens = tokens
        self._reader = reader
        self._limits = limits
        self._runs = HiddenRuns(new_lock())
        # Branches that have to be searched, and the token that is to be sealed before.
        self._searched: dict[str, bytes] = {}

    def is_brief(self, branch: str) -> bool:
        """Returns whether the next page of a branch passes few deleted files."""
        return branch not in self._searched

    def effort(self, branch: str) -> Effort:
        """Returns what the next page of a branch may do."""
        return Effort(self._limits, self._searched.get(branch))

    def page(
        self, row: ReferenceRow, start: bytes, end: bytes | None, limit: int, effort: Effort
    ) -> tuple[Items, bytes | None]:
        """Returns files of [start, end) under a row, and where the next ones begin.

        It may be short, or empty, before the end: once the effort is spent.
        """
        if effort.has_stopped():
            return [], start
        files = _BranchFiles(self, row, start, end, effort)
        found: Items = []
        while len(found) < limit and (run := files.take_run(limit - len(found))):
            found += run
        if effort.has_stopped():
            is_many = files.passed >= self._limits.run_min
            self._search_later(row.name, row.staging_token if is_many else b"")
            return found, files.position
        self._searched.pop(row.name, None)
        return found, files.position if len(found) == limit else None

    def _search_later(self, branch: str, token: bytes) -> None:
        if len(self._searched) >= BRANCH_ROWS_MAX:
            self._searched.clear()
        self._searched[branch] = token

    def layers(
        self,
        row: ReferenceRow,
        is_sealed: bool,
        start: bytes,
        end: bytes | None,
        effort: Effort,
    ) -> Layers:
        """Returns what a branch has from a key on; deletions of sealed tokens are left out."""
        head = self._reader.head(row)
        index, nodes = head.index(Universe.FILES), self._context.nodes
        records, tokens = self._context.staged, tokens_of(row)
        above = 1 if row.staging_token and not is_sealed else 0

        def find_below(keys: Sequence[bytes]) -> list[bytes | None]:
            self._reader.check_head(row, keys)
            return find_many(nodes, index, keys)

        sources = [shown_source(records, one, find_below, start, end) for one in tokens]
        below = [*sources[above:], index_source(nodes, index, start, end)]
        base = base_of(tokens[above:], head)
        sealed = _SealedFiles(Layers(below), self._runs, base, start, end, effort)
        return Layers([*sources[:above], sealed])

    def seal(self, row: ReferenceRow) -> bool:
        """Seals the staging token of a row; returns whether it is sealed."""
        if not row.staging_token or len(row.sealed_tokens) >= self._limits.sealed_max:
            return False
        try:
            after = self._tokens.seal(row)
        except LochanError:
            # A page can be read without it.
            return False
        self._rows.forget(RefName(row.name))
        return after.staging_token != row.staging_token


class _SealedFiles:
    """The files that sealed tokens and a head show, as a source; it jumps over hidden runs.

    Once the effort is spent, it returns a deleted file as it is.
    """

    def __init__(
        self,
        layers: Layers,
        runs: HiddenRuns,
        base: RunBase,
        start: bytes,
        end: bytes | None,
        effort: Effort,
    ) -> None:
        self._layers = layers
        self._runs = runs
        self._base = base
        self._at = start
        self._end = end
        self._effort = effort
        self._run_min = effort.limits.run_min
        self._item: tuple[bytes, bytes] | None = None
        self._is_over = False

    def peek(self) -> bytes | None:
        """Returns the key of the next item, None at the end."""
        if self._item is None and not self._is_over:
            self._item = self._find_next()
            self._is_over = self._item is None
        return None if self._item is None else self._item[0]

    def take_run(self, bound: bytes | None, limit: int | None = None) -> Items:
        """Returns the next item and files after it that are at hand, all before a bound."""
        check(self._item is not None, "an item is taken after it was found")
        run = [] if self._item is None else [self._item]
        self._item = None
        key = self._layers.peek() if limit is None else None
        if key is not None and (bound is None or key < bound):
            run += take_files(self._layers, bound)
        self._at = run[-1][0] + b"\0"
        return run

    def seek(self, key: bytes) -> None:
        """Goes on to the first item that is not before a key."""
        self._layers.seek(key)
        self._at = max(self._at, key)
        if self._item is not None and self._item[0] < key:
            self._item = None

    def _find_next(self) -> tuple[bytes, bytes] | None:
        start, passed = self._at, 0
        if self._jump(start):
            passed = self._run_min
        while True:
            item = self._layers.next()
            if item is None:
                self._note(start, self._end, passed)
                return None
            key, element = item
            if not is_remove(element):
                self._note(start, key, passed)
                return item
            passed += 1
            self._effort.left -= 1
            if (passed % self._run_min == 0 or self._effort.is_spent) and self._jump(key + b"\0"):
                passed += self._run_min
            elif self._effort.is_spent:
                self._note(start, key + b"\0", passed)
                return item

    def _jump(self, key: bytes) -> bool:
        """Goes to the end of the run that a key is in; False if it is in none."""
        end = self._runs.end_of(self._base, key)
        if end == key:
            return False
        self._layers.seek(end)
        return True

    def _note(self, start: bytes, end: bytes | None, passed: int) -> None:
        if passed >= self._run_min and end is not None:
            self._runs.add(self._base, start, end)


class _BranchFiles:
    """The files of a branch under one row, from a key on.

    `position` is where to go on, `passed` the number of deleted files of the staging token so far.
    """

    def __init__(
        self,
        listings: BranchListings,
        row: ReferenceRow,
        start: bytes,
        end: bytes | None,
        effort: Effort,
    ) -> None:
        self._effort = effort
        self.position = start
        self.passed = 0
        # It is sealed before it is read: until then it may change.
        wanted = effort.seals and effort.seals == row.staging_token
        self._is_sealed = bool(wanted) and listings.seal(row)
        self._layers = listings.layers(row, self._is_sealed, start, end, effort)

    def take_run(self, limit: int) -> Items:
        """Returns the next files; none at the end, or once the effort is spent."""
        layers = self._layers
        while (key := layers.peek()) is not None:
            run = take_files(layers, None, limit)
            if run:
                self.position = run[-1][0] + b"\0"
                return run
            layers.take_run(None, 1)
            self.position = key + b"\0"
            if not self._is_sealed:
                # Those of sealed tokens are counted where they are read.
                self.passed += 1
                self._effort.left -= 1
            if self._effort.is_spent:
                self._effort.stop()
                return []
        return []


def take_files(layers: Layers, bound: bytes | None, limit: int | None = None) -> Items:
    """Takes items that are at hand, all before a bound, up to a deleted file."""
    run = layers.take_run(bound, limit)
    removed = [at for at, (_, element) in enumerate(run) if element[0] & FLAG_REMOVE]
    if removed:
        layers.put_back(len(run) - removed[0])
        del run[removed[0] :]
    return run
