"""Deterministic clock, random values and waiting: two equal runs give equal bytes."""

from __future__ import annotations

from random import Random


class ManualClock:
    """A clock that does not move until a test moves it."""

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = now_us
        self._monotonic_ns = 0

    def now_us(self) -> int:
        """Microseconds since 1970."""
        return self._now_us

    def monotonic_ns(self) -> int:
        """Nanoseconds since the clock was made."""
        return self._monotonic_ns

    def advance_us(self, duration_us: int) -> None:
        """Lets time pass for both kinds of time."""
        self._now_us += duration_us
        self._monotonic_ns += duration_us * 1_000

    def jump_us(self, distance_us: int) -> None:
        """Sets the wall clock forward or back, as an operator would; durations do not notice."""
        self._now_us += distance_us


class SeededRandom:
    """Random values that depend only on the seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes."""
        return self._random.randbytes(count)

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + (high - low) * self._random.random()


class RecordedWaiting:
    """Waits by moving a clock, and remembers for how long."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self._clock = clock
        self.sleeps_ms: list[float] = []

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns at once."""
        self.sleeps_ms.append(duration_ms)
        if self._clock is not None:
            self._clock.advance_us(round(duration_ms * 1_000))
