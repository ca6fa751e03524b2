"""Nessie's four load simulations, restated over plain HTTP with the same defaults.

- commit-to-branch: every user reads a table and commits it, in five modes.
- create-many-branches: every user makes branches.
- key-list-spilling: commits on top of many keys that are padded to 256 characters.
- mixed-workloads: writers, readers and people at a screen share branches, each at its own pace.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import Any

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, Measured, drive
from benchmarks.http_load.preparation import Preparation, commit_body, hash_after_commit, put
from benchmarks.http_load.rows import Committer, Creator

MODES = (
    "BRANCH_PER_USER_SINGLE_TABLE",
    "BRANCH_PER_USER_RANDOM_TABLE",
    "SINGLE_BRANCH_RANDOM_TABLE",
    "SINGLE_BRANCH_TABLE_PER_USER",
    "SINGLE_BRANCH_SINGLE_TABLE",
)
USERS = 10
COMMITS = 100
TABLES = 250
BRANCHES = 100
BASE_COMMITS, BASE_PUTS = 98, 10
TEST_COMMITS = 40
PADDING = 256
RATE = 10.0
MIXED_S = 20.0
MIXED_TABLES, TABLES_PER_COMMIT = 10, 20

_SECONDS_MAX = 600.0


class Limited(Client):
    """Another client for a number of requests."""

    def __init__(self, client: Client, calls: int, kind: str) -> None:
        self._client = client
        self._left = calls
        self.kind = kind

    def request(self) -> bytes | None:
        self._left -= 1
        return self._client.request() if self._left >= 0 else None

    def settle(self, status: int, body: bytes) -> None:
        self._client.settle(status, body)


class ReadAndCommit(Client):
    """Reads a table, then commits it under the id that was read; a conflict is read again.

    Its commit expects the hash that came with the contents.
    """

    def __init__(
        self, requests: Requests, branch: tuple[str, str], tables: Sequence[str], seed: int
    ) -> None:
        self._requests = requests
        self._name, self._at = branch
        self._tables = tables
        self._random = Random(seed)
        self._left = COMMITS
        self._table = ""
        self._id: str | None = None
        self.kind = "commit"

    def request(self) -> bytes | None:
        if self.kind == "commit":
            if not self._left:
                return None
            self._left -= 1
            self.kind = "read"
            self._table = self._random.choice(self._tables)
            body = json.dumps({"requestedKeys": [{"elements": ["ns", self._table]}]}).encode()
            return self._requests.post(f"/trees/{self._name}/contents", body)
        self.kind = "commit"
        change = put(("ns", self._table), self._left, self._id)
        path = f"/trees/{self._name}@{self._at}/history/commit"
        return self._requests.post(path, commit_body([change]))

    def settle(self, status: int, body: bytes) -> None:
        if status == 200 and self.kind == "read":
            reply = json.loads(body)
            self._at = reply["effectiveReference"]["hash"]
            found = [one["content"]["id"] for one in reply["contents"]]
            self._id = found[0] if found else None


class PacedWriter(Client):
    """Commits many tables of a few at a steady pace; conflicts with other writers are allowed."""

    kind = "write"
    rate = RATE

    def __init__(self, requests: Requests, branch: tuple[str, str]) -> None:
        self._requests = requests
        self._name, self._at = branch
        self._ids: dict[str, str] = {}
        self._numbers = count(1)

    def request(self) -> bytes:
        number = next(self._numbers)
        tables = [f"w{(number + other) % MIXED_TABLES}" for other in range(TABLES_PER_COMMIT)]
        puts = [put(("ns", one), number, self._ids.get(one)) for one in dict.fromkeys(tables)]
        path = f"/trees/{self._name}@{self._at}/history/commit"
        return self._requests.post(path, commit_body(puts))

    def settle(self, status: int, body: bytes) -> None:
        if status == 200:
            self._at = hash_after_commit(body)
            for added in json.loads(body).get("addedContents") or ():
                self._ids[added["key"]["elements"][-1]] = added["contentId"]


class PacedReader(Client):
    """Sends the same few requests in turn at a steady rate."""

    rate = RATE

    def __init__(self, kind: str, requests: Sequence[bytes]) -> None:
        self.kind = kind
        self._requests = requests
        self._number = 0

    def request(self) -> bytes:
        self._number += 1
        return self._requests[self._number % len(self._requests)]


async def commit_to_branch(
    preparation: Preparation, mode: str, users: int, pids: Sequence[int]
) -> dict[str, Any]:
    """Runs one mode; every user commits a hundred times."""
    tables = [f"{mode.lower()}-{number}" for number in range(TABLES)]
    shared = await preparation.branch("simulated")
    clients = []
    for user in range(users):
        branch = await preparation.branch("simulated") if mode.startswith("BRANCH_PER") else shared
        if mode.endswith("RANDOM_TABLE"):
            chosen = tables
        else:
            chosen = [tables[user if mode.endswith("TABLE_PER_USER") else 0]]
        clients.append(ReadAndCommit(preparation.requests, branch, chosen, user))
    measured = await drive(preparation.requests, clients, seconds=_SECONDS_MAX, pids=pids)
    return {"mode": mode, "users": users, **_told(measured)}


async def create_many_branches(
    preparation: Preparation, users: int, pids: Sequence[int]
) -> dict[str, Any]:
    source = await preparation.root()
    clients = [
        Limited(Creator(preparation, user, source), BRANCHES, "create") for user in range(users)
    ]
    measured = await drive(preparation.requests, clients, seconds=_SECONDS_MAX, pids=pids)
    return {"users": users, "branches": BRANCHES * users, **_told(measured)}


async def key_list_spilling(
    preparation: Preparation, users: int, pids: Sequence[int]
) -> dict[str, Any]:
    branch = await preparation.branch("spilling")
    numbers, prefix = count(), "p" * PADDING
    base = Committer(preparation.requests, branch, BASE_PUTS, prefix, numbers)
    first = await drive(
        preparation.requests, [Limited(base, BASE_COMMITS, "base")], seconds=_SECONDS_MAX, pids=pids
    )
    clients = [
        Limited(Committer(preparation.requests, branch, 1, prefix, numbers), TEST_COMMITS, "commit")
        for _ in range(users)
    ]
    measured = await drive(preparation.requests, clients, seconds=_SECONDS_MAX, pids=pids)
    return {"users": users, "base_ops_s": first.figures()["ops_s"], **_told(measured)}


async def mixed_workloads(
    preparation: Preparation, users: int, pids: Sequence[int]
) -> dict[str, Any]:
    """Users of each sort: at ten requests a second the question is how long each waits."""
    branch = await preparation.branch("mixed")
    branch = await preparation.commit(
        branch, [put(["ns", f"r{n}"], n) for n in range(MIXED_TABLES)]
    )
    name, get = branch[0], preparation.requests.get
    reads = [get(f"/trees/{name}/contents/ns.r{number}") for number in range(MIXED_TABLES)]
    paths = ["/trees", f"/trees/{name}/entries", f"/trees/{name}/history?max-records=50"]
    looks = [get(path) for path in paths]
    clients: list[Client] = []
    for _ in range(users):
        clients += [PacedReader("read", reads), PacedReader("look", looks)]
    # One writer a branch, as by default; the others write beside it.
    clients.append(PacedWriter(preparation.requests, branch))
    clients += [
        PacedWriter(preparation.requests, await preparation.branch("mixed", branch))
        for _ in range(users - 1)
    ]
    measured = await drive(preparation.requests, clients, seconds=MIXED_S, warm_s=1, pids=pids)
    return {"users": users, **_told(measured)}


def _told(measured: Measured) -> dict[str, Any]:
    by_kind = {
        f"{kind}_{name}": figure
        for kind in sorted(measured.times)
        for name, figure in measured.figures(kind).items()
        if name != "max_ms"
    }
    return by_kind | measured.costs()


Simulation = Callable[[Preparation, int, Sequence[int]], Awaitable[dict[str, Any]]]


def _mode(mode: str) -> Simulation:
    return lambda preparation, users, pids: commit_to_branch(preparation, mode, users, pids)


SIMULATIONS: dict[str, tuple[int, Simulation]] = {
    **{f"commit-to-branch:{mode}": (USERS, _mode(mode)) for mode in MODES},
    "create-many-branches": (USERS, create_many_branches),
    "key-list-spilling": (1, key_list_spilling),
    "mixed-workloads": (1, mixed_workloads),
}
"""Each with the number of its users."""
