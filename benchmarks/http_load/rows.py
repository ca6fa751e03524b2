"""The rows of the comparison with Nessie: NAME or NAME:CLIENTS.

A row prepares its branches, then returns one client for each connection.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, Measured, drive
from benchmarks.http_load.preparation import Preparation, commit_body, hash_after_commit, put

MERGES = 500
MERGED_KEYS = 10


class RandomReader(Client):
    """Sends one of several requests, chosen at random."""

    def __init__(self, requests: Sequence[bytes], seed: int = 0) -> None:
        self._requests = requests
        self._pick = Random(seed)

    def request(self) -> bytes:
        if len(self._requests) == 1:
            return self._requests[0]
        return self._requests[int(self._pick.random() * len(self._requests))]


class Committer(Client):
    """Commits new tables; expects the hash of its own last commit."""

    def __init__(
        self, requests: Requests, branch: tuple[str, str], puts: int, prefix: str, numbers: count
    ) -> None:
        self._requests = requests
        self._name, self._at = branch
        self._puts = puts
        self._prefix = prefix
        self._numbers = numbers

    def request(self) -> bytes:
        numbers = [next(self._numbers) for _ in range(self._puts)]
        puts = [put(("ns", f"{self._prefix}{number}"), number) for number in numbers]
        path = f"/trees/{self._name}@{self._at}/history/commit"
        return self._requests.post(path, commit_body(puts))

    def settle(self, status: int, body: bytes) -> None:
        if status == 200:
            self._at = hash_after_commit(body)


class Creator(Client):
    """Makes one branch after the other."""

    def __init__(self, preparation: Preparation, client: int, source: tuple[str, str]) -> None:
        self._preparation = preparation
        self._requests = preparation.requests_of(client)
        name, at = source
        self._body = json.dumps({"type": "BRANCH", "name": name, "hash": at}).encode()

    def request(self) -> bytes:
        name = self._preparation.name("made")
        return self._requests.post(f"/trees?name={name}&type=BRANCH", self._body)


class Merger(Client):
    """Merges prepared branches until none is left."""

    def __init__(
        self, requests: Requests, target: tuple[str, str], sources: list[tuple[str, str]]
    ) -> None:
        self._requests = requests
        self._name, self._at = target
        self._sources = sources

    def request(self) -> bytes | None:
        if not self._sources:
            return None
        name, at = self._sources.pop()
        body = {"fromRefName": name, "fromHash": at, "message": "merged"}
        path = f"/trees/{self._name}@{self._at}/history/merge"
        return self._requests.post(path, json.dumps(body).encode())

    def settle(self, status: int, body: bytes) -> None:
        if status == 200:
            self._at = json.loads(body)["resultantTargetHash"]


Build = Callable[[Preparation, int], Awaitable[Sequence[Client]]]


def _commits(puts: int = 1, *, own: bool = False, keys: int = 0) -> Build:
    async def build(preparation: Preparation, clients: int) -> Sequence[Client]:
        numbers, prefix = count(), f"{preparation.name('k')}x"
        source = await preparation.filled(keys) if keys else None
        branches = [
            await preparation.branch("commits", source) for _ in range(clients if own else 1)
        ]
        branches *= 1 if own else clients
        return [
            Committer(preparation.requests_of(client), branch, puts, prefix, numbers)
            for client, branch in enumerate(branches)
        ]

    return build


def _asks(*paths: str, keys: int = 0) -> Build:
    """Reads of a filled branch; `{}` in a path is the branch, `#` a number of a key.

    Each client reads its share of the keys, so that requests with tokens need not more memory.
    """

    async def build(preparation: Preparation, clients: int) -> Sequence[Client]:
        name, _ = await preparation.filled(keys)
        paths_of_keys = [path.replace("{}", name) for path in paths]
        if "#" in paths_of_keys[0]:
            paths_of_keys = [paths_of_keys[0].replace("#", str(number)) for number in range(keys)]
        made = []
        for client in range(clients):
            get = preparation.requests_of(client).get
            share = paths_of_keys[client::clients] or paths_of_keys
            made.append(RandomReader([get(path) for path in share], seed=client))
        return made

    return build


async def _log(preparation: Preparation, clients: int) -> Sequence[Client]:
    name, _ = await preparation.long_history()
    return _readers(preparation, clients, f"/trees/{name}/history?max-records=100")


async def _diff(preparation: Preparation, clients: int) -> Sequence[Client]:
    (left, _), (right, _) = await preparation.changed(10_000, 10)
    return _readers(preparation, clients, f"/trees/{left}/diff/{right}")


def _readers(preparation: Preparation, clients: int, path: str) -> Sequence[Client]:
    return [RandomReader([preparation.requests_of(one).get(path)]) for one in range(clients)]


async def _create(preparation: Preparation, clients: int) -> Sequence[Client]:
    source = await preparation.root()
    return [Creator(preparation, client, source) for client in range(clients)]


async def _merge(preparation: Preparation, clients: int) -> Sequence[Client]:
    target = await preparation.commit(
        await preparation.branch("target"), [put(["ns", "target"], 1)]
    )
    sources = []
    for _ in range(MERGES):
        name, at = await preparation.branch("source")
        puts = [put(["ns", f"{name}x{number}"], number) for number in range(MERGED_KEYS)]
        sources.append(await preparation.commit((name, at), puts))
    return [Merger(preparation.requests_of(one), target, sources) for one in range(clients)]


ROWS: dict[str, tuple[Build, str]] = {
    "commit-one": (_commits(), "commit 1 put, one branch"),
    "commit-own": (_commits(own=True), "commit 1 put, a branch each"),
    "commit-100": (_commits(100, own=True), "commit 100 puts"),
    "commit-into-10k": (_commits(keys=10_000), "commit into 10k keys"),
    "commit-into-100k": (_commits(keys=100_000), "commit into 100k keys"),
    "create-branch": (_create, "create branch"),
    "merge-10": (_merge, "merge 10 keys"),
    "get-content": (_asks("/trees/{}/contents/ns.t#", keys=10_000), "get content"),
    "entries-250": (_asks("/trees/{}/entries?max-records=250", keys=10_000), "entries, 250 of 10k"),
    "log-100": (_log, "log of 100"),
    "diff-10": (_diff, "diff 10 of 10k"),
}

TABLE = [
    *("commit-one:1", "commit-one:4", "commit-one:16", "commit-one:64"),
    *("commit-own:1", "commit-own:16", "commit-own:64"),
    *("commit-100:1", "commit-into-10k:1", "create-branch:1", "create-branch:16", "merge-10:1"),
    *("get-content:1", "get-content:16", "get-content:64"),
    *("entries-250:1", "log-100:1", "diff-10:1"),
]
"""The rows that are compared by default; without 100,000 keys, because filling takes long."""


def split(row: str) -> tuple[str, int]:
    """Returns the name of a row and its number of clients; raises ValueError for no row."""
    name, _, clients = row.partition(":")
    if name not in ROWS or not (clients or "1").isdigit() or clients == "0":
        raise ValueError(f"{row!r} is no NAME or NAME:CLIENTS; names are {', '.join(ROWS)}")
    return name, int(clients or 1)


async def measure(
    preparation: Preparation, row: str, *, seconds: float, warm_s: float, pids: Sequence[int]
) -> Measured:
    """Prepares one row and drives it."""
    name, clients = split(row)
    built = await ROWS[name][0](preparation, clients)
    # Branches that are prepared one by one are not used up by warming up.
    warm_s = 0.0 if name == "merge-10" else warm_s
    return await drive(preparation.requests, built, seconds=seconds, warm_s=warm_s, pids=pids)
