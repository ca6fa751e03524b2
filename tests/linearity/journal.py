"""The attempts of clients and their outcomes, on the disk before they count.

An attempt is on the disk before its request is sent, and so is the outcome of every earlier one;
the journal after a crash therefore contains at least what the clients knew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic

from tests.linearity.chain import Attempt, Outcome


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

    def settle(self, one: Attempt, outcome: Outcome, reply_hash: str = "") -> None:
        """Notes the outcome of an attempt; on the disk before the next attempt."""
        one.settled, one.outcome, one.reply_hash = monotonic(), outcome, reply_hash
        del self._open[id(one)]
        self._note(outcome.value, one)

    def settle_all(self) -> None:
        """Settles all open attempts as unknown: the server is dead."""
        for one in list(self._open.values()):
            self.settle(one, Outcome.UNKNOWN)
        self._synchronise()

    def close(self) -> None:
        os.close(self._file)

    def _note(self, what: str, one: Attempt) -> None:
        line = {
            "what": what,
            "name": one.name,
            "reply_hash": one.reply_hash,
            "expected": one.expected,
        }
        self._pending.append(json.dumps(line) + "\n")

    def _synchronise(self) -> None:
        os.write(self._file, "".join(self._pending).encode())
        self._pending.clear()
        os.fsync(self._file)


def read_names(path: Path, outcome: Outcome) -> set[str]:
    """Returns the names of the commits that have this outcome in a journal on the disk."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["name"] for line in lines if line["what"] == outcome.value and line["name"]}
