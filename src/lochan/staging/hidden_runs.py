"""Ranges of keys in which a branch has no file to show, kept in memory.

A *hidden run* is a range in which every key that the sealed tokens of a branch or its head have is
deleted or cleared. Sealed tokens and commits never change, so a run that was found once is a fact
about them. It states nothing about the staging token, which is read on top of it.

A late copy of a write may still put a record into a sealed token. Its writer writes it again into
the staging token before it acknowledges it, so a listing may leave the late one out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from hashlib import sha256
from typing import Final

import msgspec

from lochan.base.ids import StagingToken
from lochan.base.keys import Universe
from lochan.base.limits.staging import HIDDEN_RUNS_BASES_MAX, HIDDEN_RUNS_MAX
from lochan.base.ports import Lock
from lochan.kernel.views import CommitView


class RunBase(msgspec.Struct, frozen=True):
    """What runs are facts about: tokens that are sealed, and the files of a commit."""

    tokens: tuple[StagingToken, ...]
    root: bytes | None
    embedded: bytes


def base_of(tokens: tuple[StagingToken, ...], head: CommitView) -> RunBase:
    """Returns the base of sealed tokens, the newest first, on a head.

    Commits that change tables only have the same files, and the same base.
    """
    for stored in () if head.body is None else head.body.indexes:
        if stored.universe == Universe.FILES:
            return RunBase(tokens, stored.root, sha256(stored.embedded).digest())
    return RunBase(tokens, None, b"")


class _Runs(msgspec.Struct, frozen=True):
    """Disjoint ranges, in order: beginnings, and ends, which are not in them."""

    starts: list[bytes]
    ends: list[bytes]

    def end_of(self, key: bytes) -> bytes:
        at = bisect_right(self.starts, key) - 1
        return max(key, self.ends[at]) if at >= 0 else key

    def plus(self, start: bytes, end: bytes) -> _Runs:
        """Returns them with one more; ranges that overlap or touch become one."""
        first, past = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < past:
            start, end = min(start, self.starts[first]), max(end, self.ends[past - 1])
        return _Runs(
            [*self.starts[:first], start, *self.starts[past:]],
            [*self.ends[:first], end, *self.ends[past:]],
        )


_NO_RUNS: Final = _Runs([], [])


class HiddenRuns:
    """The runs that one server knows; for any number of threads."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        # The base that got a run last is the last one. What a reader finds never changes.
        self._bases: dict[RunBase, _Runs] = {}

    def end_of(self, base: RunBase, key: bytes) -> bytes:
        """Returns the first key, from this one on, that is in no known run."""
        return self._bases.get(base, _NO_RUNS).end_of(key)

    def add(self, base: RunBase, start: bytes, end: bytes) -> None:
        """Notes a run; bases that got none for long are forgotten."""
        with self._lock:
            runs = self._bases.pop(base, _NO_RUNS)
            self._bases[base] = (
                runs.plus(start, end) if len(runs.starts) < HIDDEN_RUNS_MAX else runs
            )
            if len(self._bases) > HIDDEN_RUNS_BASES_MAX:
                del self._bases[next(iter(self._bases))]
