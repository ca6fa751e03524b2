"""An observer that counts the calls of a store, for tests and benchmarks."""

from __future__ import annotations

from collections import Counter

from lochan.kv.observe import ObservedCall


class CallCounts:
    """Counts calls, keys and bytes by operation; not meant for several threads."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()

    def observe(self, call: ObservedCall) -> None:
        """Adds a call to the sums."""
        operation = call.operation
        self.calls[operation] += 1
        self.keys[operation] += call.keys
        self.bytes_in[operation] += call.bytes_in
        self.bytes_out[operation] += call.bytes_out
        self.outcomes[operation, call.outcome] += 1

    def reset(self) -> None:
        """Starts again from zero."""
        for counter in (self.calls, self.keys, self.bytes_in, self.bytes_out):
            counter.clear()
        self.outcomes.clear()
