"""Retries within bounds: a limit in time, and sleeps that differ between callers.

Sleeps start at 5 to 25 ms and double up to 250 ms; the time that the attempt itself took is taken
off, so that a slow attempt does not wait even longer than a quick one.
"""

from __future__ import annotations

import msgspec

from lochan.base.errors import Exhausted
from lochan.base.limits.commits import (
    COMMIT_TIMEOUT_MS,
    MULTI_STEP_TIMEOUT_MS,
    RETRY_SLEEP_FIRST_MS,
    RETRY_SLEEP_MAX_MS,
)
from lochan.base.ports import Clock, Random, Waiting


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long an operation is tried, and how it sleeps in between."""

    timeout_ms: int = COMMIT_TIMEOUT_MS
    sleep_first_ms: tuple[int, int] = RETRY_SLEEP_FIRST_MS
    sleep_max_ms: int = RETRY_SLEEP_MAX_MS

    def for_steps(self) -> RetryPolicy:
        """Returns the policy of operations of several steps, which must not end half done."""
        return msgspec.structs.replace(self, timeout_ms=MULTI_STEP_TIMEOUT_MS)


class Retry:
    """Counts the attempts of one operation."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        waiting: Waiting,
        retry_policy: RetryPolicy,
    ) -> None:
        self._clock = clock
        self._random = random
        self._waiting = waiting
        self._timeout_ms = retry_policy.timeout_ms
        self._sleep_max_ms = retry_policy.sleep_max_ms
        self._began_ns = self._attempt_ns = clock.monotonic_ns()
        self._low, self._high = retry_policy.sleep_first_ms
        self.attempts = 1

    def again(self, *, at_once: bool = False) -> None:
        """Returns when the next attempt may start; raises Exhausted when there is none."""
        now_ns = self._clock.monotonic_ns()
        elapsed_ms = (now_ns - self._began_ns) / 1e6
        if elapsed_ms >= self._timeout_ms:
            text = f"gave up after {self.attempts} attempts in {elapsed_ms:.0f} ms; try again later"
            raise Exhausted(text, public=text)
        if not at_once:
            took_ms = (now_ns - self._attempt_ns) / 1e6
            sleep_ms = self._random.between(self._low, self._high) - took_ms
            self._waiting.sleep_ms(max(1.0, min(sleep_ms, self._timeout_ms - elapsed_ms)))
            self._low, self._high = self._low * 2, min(self._high * 2, self._sleep_max_ms)
            self._low = min(self._low, self._high)
        self.attempts += 1
        self._attempt_ns = self._clock.monotonic_ns()
