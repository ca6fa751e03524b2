"""What clients attempted and what they were told, written down before it counts.

An attempt is on the disk before its request is sent, and what became of an earlier one is on the
disk with it; so whoever reads the journal after any crash knows at least what the clients knew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic

from tests.linearity.chain import Attempt, Fate


class Journal:
    """Attempts in the order of their beginning, in memory and on the disk."""

    def __init__(self, path: Path) -> None:
        self.attempts: list[Attempt] = []
        self._open: dict[int, Attempt] = {}
        self._pending: list[str] = []
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def begin(self, name: str, expected: str = "", touches: tuple[str, ...] = ()) -> Attempt:
        """Notes an attempt; when this returns the request may be sent."""
        one = Attempt(name, 0.0, expected=expected, touches=touches)
        self.attempts.append(one)
        self._open[id(one)] = one
        self._note("begin", one)
        self._synchronise()
        one.began = monotonic()
        return one

    def settle(self, one: Attempt, fate: Fate, told: str = "") -> None:
        """Notes what a client was told; on the disk before the next attempt."""
        one.settled, one.fate, one.told = monotonic(), fate, told
        del self._open[id(one)]
        self._note(fate.value, one)

    def settle_all(self) -> None:
        """The server is dead: nothing can become of what is under way any more."""
        for one in list(self._open.values()):
            self.settle(one, Fate.UNKNOWN)
        self._synchronise()

    def close(self) -> None:
        os.close(self._file)

    def _note(self, what: str, one: Attempt) -> None:
        line = {"what": what, "name": one.name, "told": one.told, "expected": one.expected}
        self._pending.append(json.dumps(line) + "\n")

    def _synchronise(self) -> None:
        os.write(self._file, "".join(self._pending).encode())
        self._pending.clear()
        os.fsync(self._file)


def read_names(path: Path, fate: Fate) -> set[str]:
    """Returns the commits that a journal on the disk says have met this fate."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["name"] for line in lines if line["what"] == fate.value and line["name"]}
