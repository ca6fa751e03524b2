"""Counting what the workers did, and how fast it went: over all and for each tenth of the run."""

from __future__ import annotations

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
    """A run that is over."""

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


class Tally:
    """Hands out the numbers of commits and counts what became of them; for many threads."""

    def __init__(self, clock: Clock, commits: int) -> None:
        self._clock = clock
        self._commits = commits
        self._lock = Lock()
        self._next = 0
        self._marks: list[tuple[int, int]] = []
        self._started_ns = clock.monotonic_ns()
        self.done = self.puts = self.namespaces = self.tags = self.conflicts = self.errors = 0
        self.failure: LochanError | None = None
        self._stopped = Event()

    def next_number(self) -> int | None:
        """Returns the next commit to make; None when all are given out or the run was stopped."""
        with self._lock:
            if self._stopped.is_set() or self._next == self._commits:
                return None
            self._next += 1
            return self._next - 1

    def due_in_s(self, number: int, duration_s: float) -> float:
        """Returns how long commit `number` has to wait in a run of that duration."""
        elapsed_s = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        return max(0.0, number * duration_s / self._commits - elapsed_s)

    def committed(self, puts: int, namespaces: int) -> None:
        """Counts a commit."""
        with self._lock:
            self.done += 1
            self.puts += puts
            self.namespaces += namespaces
            if self.done * _TENTHS // self._commits > len(self._marks):
                self._marks.append((self.done, self._clock.monotonic_ns()))

    def tagged(self) -> None:
        """Counts a tag."""
        with self._lock:
            self.tags += 1

    def conflicted(self) -> None:
        """Counts an attempt that another worker was faster than."""
        with self._lock:
            self.conflicts += 1

    def failed(self, error: LochanError, *, go_on: bool) -> None:
        """Counts a commit that could not be made; stops the run unless it shall go on."""
        with self._lock:
            self.errors += 1
            if not go_on:
                self.failure = self.failure or error
                self._stopped.set()

    def stop(self) -> None:
        """Gives out no more, and wakes those who wait."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether the run is to end before all is done."""
        return self._stopped.is_set()

    def wait(self, pause_s: float) -> None:
        """Waits so long, or until the run is stopped."""
        self._stopped.wait(pause_s)

    def summary(self, workers: int) -> Summary:
        """Returns what was done until now."""
        with self._lock:
            seconds = (self._clock.monotonic_ns() - self._started_ns) / 1e9
            return Summary(
                commits=self.done,
                puts=self.puts,
                namespaces=self.namespaces,
                tags=self.tags,
                conflicts=self.conflicts,
                errors=self.errors,
                workers=workers,
                seconds=round(seconds, 3),
                commits_per_second=_rate(self.done, seconds),
                deciles=tuple(self._deciles()),
            )

    def _deciles(self) -> list[Decile]:
        found = []
        before, since_ns = 0, self._started_ns
        for number, (done, at_ns) in enumerate(self._marks, 1):
            seconds = (at_ns - since_ns) / 1e9
            count = done - before
            found.append(Decile(number, count, round(seconds, 3), _rate(count, seconds)))
            before, since_ns = done, at_ns
        return found


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds > 0 else 0.0
