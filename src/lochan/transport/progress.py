"""Whether a body goes on fast enough, in either direction: so many bytes in any span of time."""

from __future__ import annotations

from collections import deque

from lochan.base.limits.http import PROGRESS_BYTES_MIN


class Progress:
    """The recent progress of one body; looked at regularly, with the bytes that have passed so far.

    Time in which the server itself does not take or give anything is not the client's: `restart`.
    """

    def __init__(self, window_s: float, now: float, total: int = 0) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int]] = deque([(now, total)])

    def restart(self, now: float, total: int) -> None:
        """Begins a new span."""
        self._samples = deque([(now, total)])

    def is_too_slow(self, now: float, total: int) -> bool:
        """Returns whether less than the least amount has passed in the span up to now."""
        samples = self._samples
        samples.append((now, total))
        while len(samples) > 1 and samples[1][0] <= now - self._window_s:
            samples.popleft()
        began, before = samples[0]
        return now - began >= self._window_s and total - before < PROGRESS_BYTES_MIN
