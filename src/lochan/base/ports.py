"""The named ports through which time, randomness and waiting enter.

Nothing in `service/` and below imports a clock or a random source: it gets one of these as an
argument. The real ones are in `system.py`, deterministic ones in `lochan.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class Clock(Protocol):
    """Returns the time, in two ways that must not be mixed."""

    def now_us(self) -> int:
        """Microseconds since 1970, may jump."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start, never goes back; for durations."""


class Random(Protocol):
    """Gives unpredictable values."""

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes, fit for secrets and ids."""

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high), fit for sleeps and jitter."""


class Waiting(Protocol):
    """Lets time pass."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after about that long."""


class Lock(Protocol):
    """Lets one caller at a time into a `with` block; not re-entrant."""

    def __enter__(self) -> bool:
        """Returns when no other caller is inside."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Lets the next caller in."""


NewLock = Callable[[], Lock]
"""Returns a lock that no caller has."""
