"""Runs `preforking` until enough was acknowledged, kills it, and checks what it has left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from lochan import open_repository
from tests.architecture.tree import ROOT
from tests.crash.preforking import ENDINGS

# Warnings are errors, but for the one of Python 3.12 and later that a process with threads forks.
WARNINGS = ("-W", "error", "-W", "ignore::DeprecationWarning")


class Preforked:
    """One run of the program."""

    def __init__(self, url: str, run: str) -> None:
        self.acknowledged: list[str] = []
        self.outcomes: list[dict[str, str]] = []
        self.ended: dict[str, int] = {}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.preforking", url, run],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A group of their own: program and workers.
            start_new_session=True,
        )

    def run_until(self, acknowledged: int, children: int) -> None:
        """Reads what the program says until that many have been seen of both."""
        assert self._program.stdout is not None
        while len(self.acknowledged) < acknowledged or len(self.outcomes) < children:
            line = self._program.stdout.readline()
            assert line, "the program ended by itself"
            self._read(line)

    def kill(self) -> None:
        """Ends the program, not its workers."""
        self._program.kill()
        self._program.wait()

    def kill_workers(self) -> None:
        """Ends the workers that are left, and reads what was said before all were killed."""
        assert self._program.stdout is not None
        with suppress(ProcessLookupError):
            os.killpg(self._program.pid, signal.SIGKILL)
        for line in self._program.stdout:
            if line.endswith(b"\n"):
                self._read(line)
        self._program.stdout.close()

    def _read(self, line: bytes) -> None:
        kind, rest = line.decode().rstrip("\n").split(" ", 1)
        if kind == "ack":
            self.acknowledged.append(rest)
        elif kind == "child":
            self.outcomes.append(json.loads(rest.split(" ", 2)[2]))
        else:
            _, ending, code = rest.split(" ")
            self.ended[ending] = int(code)


def kill_again_and_again(
    url: str, runs: int, check_outcomes: Callable[[dict[str, str]], None]
) -> list[str]:
    """Runs and kills the program; after each kill everything acknowledged is there and whole.

    The store is opened while workers of the killed program are still there. Returns all that was
    acknowledged.
    """
    everything: list[str] = []
    for number in range(runs):
        program = Preforked(url, f"run{number}")
        try:
            program.run_until(acknowledged=60, children=len(ENDINGS))
            program.kill()
            check_there(url, [*everything, *program.acknowledged])
        finally:
            program.kill()
            program.kill_workers()
        everything += program.acknowledged
        check_there(url, everything)
        for outcomes in program.outcomes:
            check_outcomes(outcomes)
        assert program.ended == {name: code for name, code in ENDINGS.items() if code is not None}
    return everything


def check_there(url: str, acknowledged: list[str]) -> None:
    with open_repository(url) as repository:
        keys = {entry.key[0] for entry in repository.contents.iterate("main")}
        assert [name for name in acknowledged if name not in keys] == []
        messages = [entry.meta.message for entry in repository.history.iterate("main")]
        assert len(set(messages)) == len(messages), "a commit is there twice"
        report = repository.check()
        assert not report.damaged, report.findings
