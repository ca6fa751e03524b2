"""kill -9: what was acknowledged after `flush` is there, and nothing is half there.

The page cache outlives a killed process, so this shows that writes leave the process before they
are acknowledged and that opening repairs what a kill leaves; another test watches the system calls
to show that they also reach the disk.
"""

from __future__ import annotations

import subprocess
import sys
from random import Random
from signal import SIGKILL

from lochan.assembly import open_store
from lochan.testing.killed_writer import HEADS, STARTING, check_number, check_survivors

CYCLES = 50


class KilledWriter:
    """Starts writers on one store and kills them, again and again."""

    def __init__(self, url: str, seed: int, command: tuple[str, ...] = ()) -> None:
        self._url = url
        self._random = Random(seed)
        self._command = command or (sys.executable, "-m", "lochan.testing.killed_writer")
        self.applied = 0
        self.acknowledged = 0
        self.stamps: set[bytes] = set()

    def run_and_kill(self) -> None:
        """Lets one writer acknowledge a random number of writes, kills it, checks the store."""
        first = self.applied + 1
        acknowledged = self._acknowledgements(first)
        for number, stamp in acknowledged:
            assert number == self.acknowledged + 1 or number == first
            assert stamp not in self.stamps, "a stamp came back after a restart"
            self.stamps.add(stamp)
            self.acknowledged = number
        store = open_store(self._url)
        try:
            self.applied = check_survivors(store, first, max(self.acknowledged, first - 1))
            head = store.get(HEADS, b"head")
            if head is not None and self.applied == self.acknowledged:
                assert head.stamp.hex().encode() in self.stamps
        finally:
            store.close()

    def check_all(self) -> None:
        """Checks everything since the first writer once more."""
        store = open_store(self._url)
        try:
            for number in range(1, self.applied + 1):
                check_number(store, number)
        finally:
            store.close()

    def _acknowledgements(self, first: int) -> list[tuple[int, bytes]]:
        command = [*self._command, self._url, str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:  # noqa: S603 - our own
            assert writer.stdout is not None
            try:
                lines = [writer.stdout.readline()]
                # Sometimes before it has opened the store, sometimes after many writes.
                lines += [writer.stdout.readline() for _ in range(self._random.choice(_PATIENCE))]
                for _ in range(self._random.randrange(20_000)):
                    pass
            finally:
                writer.kill()
            lines += writer.stdout.readlines()
        if writer.returncode != -SIGKILL or lines[0] != STARTING:
            # Not what is tested here, so not an AssertionError.
            raise RuntimeError(f"the writer ended by itself with {writer.returncode}")
        words = [line.split() for line in lines[1:] if line.endswith(b"\n")]
        return [(int(number), stamp) for number, stamp in words]


_PATIENCE = (0, 0, 1, 1, 2, 3, 5, 8, 13, 21, 34)


class CrashContract:
    """For stores that claim to be durable after `flush`; needs the fixture `url` of a fresh one."""

    cycles = CYCLES
    """How often a writer is killed; a subclass may have fewer where a test must be short."""

    def test_what_was_acknowledged_survives_being_killed(self, url: str) -> None:
        writer = KilledWriter(url, seed=3)
        for _ in range(self.cycles):
            writer.run_and_kill()
        writer.check_all()
        assert writer.acknowledged > self.cycles, "the writers must get to write"
