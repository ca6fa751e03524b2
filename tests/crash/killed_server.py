"""Clients on a server that is killed under them, again and again, and what its branch then says.

Every client has one connection and one request under way. Most commits put a table of their own,
some change one table that all share (who has not seen the latest change is refused), some requests
read the head. When enough was acknowledged the server is killed at once, with requests under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.http_load.connection import Connection, Requests
from benchmarks.http_load.preparation import (
    Caller,
    commit_body,
    hash_after_commit,
    put,
    put_namespace,
)
from tests.linearity.chain import Attempt, Link, Outcome
from tests.linearity.journal import Journal

BRANCH = "main"
SHARED = ("ns", "shared")


class Load:
    """What the clients of one life of the server share."""

    def __init__(self, journal: Journal, life: int, enough: int, kill: Callable[[], None]) -> None:
        self.journal = journal
        self.life = life
        self.left = enough
        self._kill = kill
        self.latest = ""

    def acknowledged(self, one: Attempt, told: str) -> None:
        """Notes what a client was told, and kills the server when that was enough."""
        self.journal.settle(one, Outcome.ACKNOWLEDGED, told)
        self.latest = told
        self.left -= bool(one.name)
        if not self.left:
            self._kill()


class Committer:
    """One client: commits and reads until the connection breaks."""

    def __init__(
        self, load: Load, requests: Requests, start: str, shared_id: str, random: Random, who: int
    ) -> None:
        self._load = load
        self._requests = requests
        self._at = start
        self._shared_id = shared_id
        self._random = random
        self._who = who
        self._number = 0
        self._attempt: Attempt | None = None
        self.connection: Connection | None = None
        self.gone = asyncio.get_running_loop().create_future()

    def next(self) -> None:
        """Sends one more request, written down first."""
        if self.connection is None:
            return
        turn = self._random.random()
        if turn < 0.1:
            self._attempt = self._load.journal.begin("")
            self.connection.send(self._requests.get(f"/trees/{BRANCH}"))
            return
        self._number += 1
        name = f"life {self._load.life} client {self._who} number {self._number}"
        if turn < 0.3:
            key, known = SHARED, self._shared_id
        else:
            key, known = ("ns", name.replace(" ", "-")), ""
        self._attempt = self._load.journal.begin(name, self._at, (".".join(key),))
        # Who writes what is there already overwrites nothing, so no two write the same.
        body = _commit(name, [put(key, self._random.getrandbits(31), known)])
        path = f"/trees/{BRANCH}@{self._at}/history/commit"
        self.connection.send(self._requests.post(path, body))

    def replied(self, status: int, body: bytes) -> None:
        one = self._attempt
        if status == 200 and one is not None:
            self._at = hash_after_commit(body)
            self._load.acknowledged(one, self._at)
        elif status == 409 and one is not None and one.touches == (".".join(SHARED),):
            self._load.journal.settle(one, Outcome.REFUSED)
            # Who was refused looks again, as a person would.
            self._at = self._load.latest or self._at
        elif not self.gone.done():
            self.gone.set_exception(AssertionError(f"{status} to {one}: {body[:500]!r}"))
        self.next()

    def lost(self, _: Exception | None) -> None:
        self.connection = None
        if not self.gone.done():
            self.gone.set_result(None)


async def prepare(requests: Requests, journal: Journal) -> tuple[str, str]:
    """Makes the namespace and the shared table once; returns the head and the table's id."""
    caller = Caller(requests)
    try:
        head = (await caller.get(f"/trees/{BRANCH}"))["reference"]["hash"]
        body = _commit("prepared", [put_namespace(["ns"]), put(SHARED, 0)])
        one = journal.begin("prepared")
        request = requests.post(f"/trees/{BRANCH}@{head}/history/commit", body)
        status, reply = await caller.call(request)
        assert status == 200, reply
        journal.settle(one, Outcome.ACKNOWLEDGED, hash_after_commit(reply))
        told = await caller.get(f"/trees/{BRANCH}/contents/{'.'.join(SHARED)}")
        return one.reply_hash, told["content"]["id"]
    finally:
        caller.close()


async def walk(requests: Requests, until: str = "") -> list[Link]:
    """Returns the chain after a commit, or all of it, oldest first."""
    caller = Caller(requests)
    entries: list[dict[str, Any]] = []
    hashes: list[str] = []
    query = "fetch=ALL&max-records=250"
    more = ""
    try:
        while until not in hashes:
            page = await caller.get(f"/trees/{BRANCH}/history?{query}{more}")
            entries += page["logEntries"]
            hashes += [entry["commitMeta"]["hash"] for entry in page["logEntries"]]
            if not page.get("token"):
                break
            more = f"&page-token={page['token']}"
    finally:
        caller.close()
    assert not until or until in hashes, f"{until} is no longer in the history"
    for entry, parent in zip(entries, hashes[1:], strict=False):
        assert entry["parentCommitHash"] == parent, "the history has a gap"
    new = entries[: hashes.index(until) if until else None]
    return [Link(one["commitMeta"]["hash"], one["commitMeta"]["message"]) for one in new[::-1]]


async def load_until_killed(
    requests: Requests, load: Load, clients: int, start: str, shared_id: str, random: Random
) -> None:
    """Returns when every client has lost its connection."""
    committers = [
        Committer(load, requests, start, shared_id, random, who) for who in range(clients)
    ]
    for one in committers:
        one.connection = await requests.connect(one.replied, one.lost)
    for one in committers:
        one.next()
    await asyncio.gather(*(one.gone for one in committers))


def _commit(name: str, puts: list[bytes]) -> bytes:
    return commit_body(puts).replace(b"measured", name.encode(), 1)


def count_fates(journal: Journal) -> str:
    """Returns how many commits met which outcome."""
    commits = [one for one in journal.attempts if one.name]
    return ", ".join(
        f"{sum(one.outcome is outcome for one in commits)} {outcome.value}" for outcome in Outcome
    )
