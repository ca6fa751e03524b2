"""Counts what a server answers, and notes a request that it leaves without any answer."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from time import monotonic

import httpx

# The server's own limits are a few seconds. A reply that takes longer does not come.
ANSWER_S = 90


class StatusCounts(httpx.HTTPTransport):
    """A transport that counts; `unanswered` are requests without an answer in ANSWER_S."""

    def __init__(self) -> None:
        super().__init__(limits=httpx.Limits(max_connections=64))
        self._lock = Lock()
        self.statuses: Counter[int] = Counter()
        self.unanswered: list[str] = []
        self.longest_s: dict[int, float] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        began = monotonic()
        try:
            response = super().handle_request(request)
        except httpx.TimeoutException as error:
            with self._lock:
                self.unanswered.append(f"{request.method} {request.url}: {error!r}")
            raise
        with self._lock:
            self.statuses[response.status_code] += 1
            took = monotonic() - began
            before = self.longest_s.get(response.status_code, 0.0)
            self.longest_s[response.status_code] = max(before, took)
        return response

    def summary(self) -> str:
        """Returns how often each status came, and after how long at most."""
        return ", ".join(
            f"{times} of {status} within {self.longest_s[status]:.1f} s"
            for status, times in sorted(self.statuses.items())
        )
