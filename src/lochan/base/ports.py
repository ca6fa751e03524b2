"""The named ports through which time, randomness, waiting and locks enter.

Nothing in `service/` and below imports a clock or a random source: it is handed one of these. The
real ones live in `system.py`, deterministic ones in `lochan.testing`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol


class Clock(Protocol):
    """Tells the time, in two ways that must not be mixed."""

    def now_us(self) -> int:
        """Microseconds since 1970, may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start, never goes back; for durations."""
        ...


class Random(Protocol):
    """Gives unpredictable values."""

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes, fit for secrets and ids."""
        ...

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high), fit for sleeps and jitter."""
        ...


class Lock(Protocol):
    """Mutual exclusion, used with `with`."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Waiting(Protocol):
    """Lets time pass."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after about that long."""
        ...
