"""The progress of a run: hands out the commits and counts the results, in all and by tenths."""

from __future__ import annotations

from collections import Counter
from threading import Event, Lock
from typing import Final

import msgspec

from lochan.base.errors import LochanError
from lochan.base.ports import Clock

_TENTHS: Final = 10


class Decile(msgspec.Struct, frozen=True, rename="camel"):
    """One tenth of a run."""

    decile: int
    commits: int
    seconds: float
    commits_per_second: float


class Summary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The results of a run."""

    commits: int
    puts: int
    namespaces: int
    tags: int
    conflicts: int
    errors: int
    workers: int
    seconds: float
    commits_per_second: float
    deciles: tuple[Decile, ...]


class Progress:
    """Hands out the numbers of commits and counts their results; used by many threads.

    Once `stopped` is set, no more commits are handed out; workers that wait for their turn wait on
    it.
    """

    def __init__(self, clock: Clock, commits: int) -> None:
        self._clock = clock
        self._commits = commits
        self._lock = Lock()
        self._next = 0
        self._counts: Counter[str] = Counter()
        self._decile_ends: list[tuple[int, int]] = []
        self._started_ns = clock.monotonic_ns()
        self.failure: LochanError | None = None
        self.stopped = Event()

    @property
    def done(self) -> int:
        """The number of commits made so far."""
        return self._counts["commits"]

    def next_number(self) -> int | None:
        """Returns the next commit; None when all are handed out or the run was stopped."""
        with self._lock:
            if self.stopped.is_set() or self._next == self._commits:
                return None
            self._next += 1
            return self._next - 1

    def due_in_s(self, number: int, duration_s: float) -> float:
        """Returns how long commit `number` has to wait in a run of that duration."""
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        return max(0.0, number * duration_s / self._commits - elapsed_s)

    def count(self, **counts: int) -> None:
        """Adds to the counts of the summary, by their names."""
        with self._lock:
            self._counts.update(counts)
            is_commit = "commits" in counts
            if is_commit and self.done * _TENTHS // self._commits > len(self._decile_ends):
                self._decile_ends.append((self.done, self._clock.monotonic_ns()))

    def fail(self, error: LochanError, *, continues: bool) -> None:
        """Counts a commit that failed; stops the run unless it continues on errors."""
        with self._lock:
            self._counts["errors"] += 1
            if not continues:
                self.failure = self.failure or error
                self.stopped.set()

    def summary(self, workers: int) -> Summary:
        """Returns the results so far."""
        with self._lock:
            seconds = (self._clock.monotonic_ns() - self._started_ns) / 1e9
            names = ("commits", "puts", "namespaces", "tags", "conflicts", "errors")
            return Summary(
                **{name: self._counts[name] for name in names},
                workers=workers,
                seconds=round(seconds, 3),
                commits_per_second=_rate(self.done, seconds),
                deciles=tuple(self._deciles()),
            )

    def _deciles(self) -> list[Decile]:
        deciles = []
        before, since_ns = 0, self._started_ns
        for number, (done, end_ns) in enumerate(self._decile_ends, 1):
            seconds = (end_ns - since_ns) / 1e9
            count = done - before
            deciles.append(Decile(number, count, round(seconds, 3), _rate(count, seconds)))
            before, since_ns = done, end_ns
        return deciles


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds > 0 else 0.0
