"""The rows of branches as staging reads them: from memory for a moment, or by shared reads.

A write and a read of staged files begin with a row, which may be an old one, because both read the
row again at their end and start over if it matters. `load` is for the beginning: it may return what
was read a moment ago. `fetch` is for the end: its read of the store begins after the call did.

Callers of `fetch` that come at the same time share one read: a caller joins a read that was *not
sent yet*, never one that is under way, because that may miss a change that was acknowledged before
the caller came. A read under way holds the lock of its branch; all that come meanwhile wait for the
lock, and the first that gets it reads for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lochan.base.errors import LochanError, NotABranch, ReferenceNotFound
from lochan.base.limits.staging import BRANCH_ROW_TTL_MS, BRANCH_ROWS_MAX
from lochan.base.names import RefName
from lochan.base.ports import Clock, Lock, NewLock
from lochan.codec.rows import ReferenceRow
from lochan.persist.references import StampedRow

FindRow = Callable[[RefName], StampedRow | None]
"""Reads a live row; `ReferenceIndex.find` finishes what was left half done."""


class SeenRow(msgspec.Struct, frozen=True, gc=False):
    """A row, and whether it was read after the caller had begun."""

    row: ReferenceRow
    fresh: bool


class _Read:
    """One read of a row, shared by all callers that came before it was sent."""

    __slots__ = ("row",)

    def __init__(self) -> None:
        self.row: ReferenceRow | None = None


class _Branch:
    """What is known of one branch."""

    __slots__ = ("known", "known_ns", "lock", "next_read")

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.next_read = _Read()
        self.known: ReferenceRow | None = None
        self.known_ns = 0


class BranchRows:
    """The rows of a repository's branches on one server; for any number of threads."""

    def __init__(
        self,
        find: FindRow,
        clock: Clock,
        new_lock: NewLock,
        ttl_ms: int = BRANCH_ROW_TTL_MS,
    ) -> None:
        self._find = find
        self._clock = clock
        self._new_lock = new_lock
        self._ttl_ns = ttl_ms * 1_000_000
        self._branches: dict[RefName, _Branch] = {}

    def load(self, name: RefName) -> SeenRow:
        """Returns a row that may be some moments old."""
        branch = self._branch(name)
        known = self._known(branch)
        if known is not None:
            return SeenRow(known, False)
        with branch.lock:
            # Another caller may have read it meanwhile; that read may have begun before this call.
            known = self._known(branch)
            if known is not None:
                return SeenRow(known, False)
            return SeenRow(self._read(name, branch), True)

    def fetch(self, name: RefName) -> ReferenceRow:
        """Returns a row as it was at some moment after the call; shares the read with others."""
        branch = self._branch(name)
        read = branch.next_read
        with branch.lock:
            return self._read(name, branch) if read.row is None else read.row

    def forget(self, name: RefName) -> None:
        """Drops what is in memory, after a change by this server."""
        branch = self._branches.get(name)
        if branch is not None:
            branch.known = None

    def _read(self, name: RefName, branch: _Branch) -> ReferenceRow:
        """Reads the row; the caller has the lock of the branch."""
        # Callers that come from now on need a read that is sent later than this one.
        read, branch.next_read = branch.next_read, _Read()
        began_ns = self._clock.monotonic_ns()
        try:
            row = self._found(name)
        except LochanError:
            branch.known = None
            raise
        read.row = branch.known = row
        branch.known_ns = began_ns
        return row

    def _found(self, name: RefName) -> ReferenceRow:
        found = self._find(name)
        if found is None or found.row.deleted:
            raise ReferenceNotFound(f"Named reference '{name}' not found")
        if found.row.kind != "BRANCH":
            raise NotABranch(f"{name!r} is not a branch; files are staged on branches")
        return found.row

    def _known(self, branch: _Branch) -> ReferenceRow | None:
        known = branch.known
        if known is not None and self._clock.monotonic_ns() - branch.known_ns <= self._ttl_ns:
            return known
        return None

    def _branch(self, name: RefName) -> _Branch:
        branch = self._branches.get(name)
        if branch is None:
            if len(self._branches) >= BRANCH_ROWS_MAX:
                # A branch in use only loses what is in memory; its next caller begins anew.
                self._branches.clear()
            branch = self._branches.setdefault(name, _Branch(self._new_lock()))
        return branch
