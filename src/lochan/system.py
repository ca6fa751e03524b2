"""The real world behind the ports of `base/ports.py`: clock, chance, locks and waiting."""

from __future__ import annotations

import os
import threading
import time
from random import SystemRandom

from lochan.base.ports import Lock


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Microseconds since 1970, may jump."""
        return time.time_ns() // 1_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start, never goes back."""
        return time.monotonic_ns()


class SystemChance:
    """The operating system's randomness."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes, fit for secrets and ids."""
        return os.urandom(count)

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + (high - low) * self._random.random()


class ThreadLocks:
    """Locks between threads."""

    def new_lock(self) -> Lock:
        """Returns a fresh, unlocked lock."""
        return threading.Lock()


class ThreadWaiting:
    """Sleeps the calling thread."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after about that long."""
        time.sleep(duration_ms / 1_000)
