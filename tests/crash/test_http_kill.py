"""Kills of the server under load: nothing acknowledged is lost, nothing is applied twice.

The clients' journal is compared with the chain of commits after every restart, on the same store.
A kill leaves the page cache alone; that commits reach the disk is shown by watching system calls.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import run
from benchmarks.http_load.processes import Served, start_lochan
from tests.crash.killed_server import Load, count_fates, load_until_killed, prepare, walk
from tests.linearity.chain import Link, Outcome, find_violations
from tests.linearity.journal import Journal, read_names
from tests.profile import counted

KILLS = counted(8, 50)
CLIENTS = (4, 8, 16)

# Commits acknowledged before the kill; 0 kills a server that has only just become ready.
PATIENCE = (0, 1, 2, 5, 20, 50, 100, 200)


class Story:
    """Lives of one server on one store."""

    def __init__(self, start: Callable[[], Served], folder: Path, seed: int) -> None:
        self._start = start
        self._path = folder / "journal"
        self._random = Random(seed)
        self.journal = Journal(self._path)
        self.chain: list[Link] = []
        self._shared_id = ""

    async def live(self, kills: int) -> None:
        """Starts, checks, loads and kills; at the end everything is walked once more."""
        for life in range(kills):
            with self._start() as served:
                await self._one_life(served, life)
            self.journal.settle_all()
        with self._start() as served:
            requests = Requests(served.address)
            await self._check(requests)
            assert await walk(requests) == self.chain, "the history has changed since it was seen"
        self.journal.close()
        names = {link.name for link in self.chain}
        assert read_names(self._path, Outcome.ACKNOWLEDGED) <= names
        assert not read_names(self._path, Outcome.REFUSED) & names

    async def _one_life(self, served: Served, life: int) -> None:
        requests = Requests(served.address)
        if life:
            await self._check(requests)
        else:
            _, self._shared_id = await prepare(requests, self.journal)
            self.chain = await walk(requests)
        head = self.chain[-1].commit
        enough, clients = self._random.choice(PATIENCE), self._random.choice(CLIENTS)
        if enough:
            load = Load(self.journal, life, enough, served.kill)
            await load_until_killed(requests, load, clients, head, self._shared_id, self._random)
        served.kill()

    async def _check(self, requests: Requests) -> None:
        self.chain += await walk(requests, self.chain[-1].commit)
        assert find_violations(self.chain, self.journal.attempts) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_acknowledged_commits_survive_kills_once_and_in_order(
    tmp_path: Path, record_property
) -> None:
    story = Story(lambda: start_lochan(f"rocksdb:{tmp_path / 'store'}", tmp_path), tmp_path, seed=5)
    run(lambda: story.live(KILLS))
    fates = count_fates(story.journal)
    record_property(
        "told", f"{KILLS} kills of the server: {fates}, {len(story.chain)} in the chain"
    )
    assert ", 0 unknown" not in fates, "some requests must have been under way"
    assert ", 0 refused" not in fates, "some commits must have met each other"
