"""Whether a body goes on fast enough, in either direction: so many bytes in any span of time."""

from __future__ import annotations

import socket
import sys
from collections import deque

from lochan.base.limits.http import PROGRESS_BYTES_MIN

try:
    import fcntl
    import termios
except ImportError:
    _HAS_IOCTL = False
else:
    _HAS_IOCTL = True


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


def held_by_kernel(opened: socket.socket | None) -> int:
    """Returns how many bytes the kernel holds that the other side has not taken; 0 if unknown.

    It takes megabytes from us at once, and asks for more only when a good part of them has left: to
    us a client that reads steadily looks for minutes like one that does not read.
    """
    if opened is None or not _HAS_IOCTL:
        return 0
    try:
        raw = fcntl.ioctl(opened.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):
        # It is closed.
        return 0
    return int.from_bytes(raw, sys.byteorder)
