"""The two workloads of the storage document: many commits on one branch, does it stay as fast?

`tables`: 1,000,000 commits over 5,000 tables. `long-keys`: 200,000 commits of 10 puts over 300,000
long random keys, `stuff-folders.stuff-UUID.foolish-key_UUID.UUID_0`, where the first UUID changes
every 150 keys and the second every 20. Each client has its own share of the keys, so there
are no conflicts; a table that exists is changed under the id it got when it was first committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.http_load.connection import Requests
from benchmarks.http_load.drive import Client, drive
from benchmarks.http_load.preparation import (
    Preparation,
    commit_body,
    hash_after_commit,
    put,
    put_namespace,
)

Elements = tuple[str, ...]

# The longest that a run may take; the deciles distinguish a slow server from a stuck one.
_SECONDS_MAX = 6 * 3_600
_NAMESPACES_PER_COMMIT = 500


def plain_keys(number: int) -> list[Elements]:
    return [("ns", f"table-{index}") for index in range(number)]


def long_keys(number: int, seed: int = 1) -> list[Elements]:
    """Returns the keys of the pattern, the same for the same seed."""
    random = Random(seed)

    def uuid() -> UUID:
        return UUID(int=random.getrandbits(128), version=4)

    keys: list[Elements] = []
    folder = key = uuid()
    for index in range(number):
        folder = uuid() if index % 150 == 0 else folder
        key = uuid() if index % 20 == 0 else key
        keys.append(("stuff-folders", f"stuff-{folder}", f"foolish-key_{key}", f"{uuid()}_0"))
    return keys


def namespaces_of(keys: Sequence[Elements]) -> list[Elements]:
    """Returns every namespace above the keys, parents first."""
    found = {key[:depth] for key in keys for depth in range(1, len(key))}
    return sorted(found, key=lambda elements: (len(elements), elements))


@dataclass(frozen=True)
class Workload:
    """How many commits of how many puts over how many keys."""

    commits: int
    puts: int
    keys: int
    make: Callable[[int], list[Elements]]

    def scaled(self, scale: float) -> Workload:
        """Returns the same with fewer commits and keys; a key for each put of a commit remains."""
        commits = max(20, int(self.commits * scale))
        return Workload(commits, self.puts, max(100, int(self.keys * scale)), self.make)


WORKLOADS = {
    "tables": Workload(1_000_000, 1, 5_000, plain_keys),
    "long-keys": Workload(200_000, 10, 300_000, long_keys),
}


class Progress:
    """Hands out commits until all are done; remembers when each tenth of them was acknowledged."""

    def __init__(self, commits: int) -> None:
        self.left = self.commits = commits
        self.done = 0
        self.marks = [perf_counter()]
        self._next = self._mark(1)

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def note(self) -> None:
        self.done += 1
        if self.done == self._next:
            self.marks.append(perf_counter())
            self._next = self._mark(len(self.marks))

    def _mark(self, decile: int) -> int:
        return self.commits * decile // 10

    def per_second(self) -> list[float]:
        """Returns commits per second of each decile that was finished."""
        counts = [self._mark(number) - self._mark(number - 1) for number in range(1, 11)]
        spans = [last - first for first, last in zip(self.marks, self.marks[1:], strict=False)]
        return [number / span for number, span in zip(counts, spans, strict=False)]


class Key(msgspec.Struct):
    """A key as replies write it."""

    elements: list[str]


class Added(msgspec.Struct):
    """The entry of a new table in the reply to a commit."""

    key: Key
    content_id: str = msgspec.field(name="contentId")


class Reply(msgspec.Struct):
    """The part of the reply to a commit that brings the ids of new tables."""

    added: list[Added] = msgspec.field(name="addedContents", default_factory=list)


_decode = msgspec.json.Decoder(Reply).decode


class Changer(Client):
    """Puts random tables of its share, again and again."""

    def __init__(
        self,
        requests: Requests,
        branch: tuple[str, str],
        keys: Sequence[Elements],
        puts: int,
        progress: Progress,
        seed: int,
    ) -> None:
        self._requests = requests
        self._name, self._at = branch
        self._keys = keys
        self._puts = min(puts, len(keys))
        self._progress = progress
        self._random = Random(seed)
        self._ids: dict[Elements, str] = {}
        self._number = 0
        self._new = False

    def request(self) -> bytes | None:
        if not self._progress.take():
            return None
        self._number += 1
        puts = []
        self._new = False
        for key in self._random.sample(self._keys, self._puts):
            content_id = self._ids.get(key)
            self._new = self._new or content_id is None
            puts.append(put(key, self._number, content_id))
        path = f"/trees/{self._name}@{self._at}/history/commit"
        return self._requests.post(path, commit_body(puts))

    def settle(self, status: int, body: bytes) -> None:
        if status != 200:
            return
        self._progress.note()
        self._at = hash_after_commit(body)
        if self._new:
            for added in _decode(body).added:
                self._ids[tuple(added.key.elements)] = added.content_id


def shares(keys: Sequence[Elements], clients: int) -> Iterator[Sequence[Elements]]:
    """Deals the keys out, so that neighbours belong to different clients."""
    for number in range(clients):
        yield keys[number::clients]


async def generate(
    preparation: Preparation, name: str, *, scale: float, clients: int, pids: Sequence[int]
) -> dict[str, Any]:
    """Runs one workload; returns commits per second of every decile."""
    workload = WORKLOADS[name].scaled(scale)
    keys = workload.make(workload.keys)
    branch = await preparation.branch("generated")
    missing = [elements for elements in namespaces_of(keys) if elements != ("ns",)]
    for first in range(0, len(missing), _NAMESPACES_PER_COMMIT):
        chosen = missing[first : first + _NAMESPACES_PER_COMMIT]
        branch = await preparation.commit(branch, [put_namespace(elements) for elements in chosen])
    progress = Progress(workload.commits)
    changers = [
        Changer(preparation.requests, branch, share, workload.puts, progress, seed)
        for seed, share in enumerate(shares(keys, clients))
    ]
    measured = await drive(preparation.requests, changers, seconds=_SECONDS_MAX, pids=pids)
    deciles = progress.per_second()
    return {
        "workload": name,
        "commits": progress.done,
        "puts": workload.puts,
        "keys": workload.keys,
        "clients": clients,
        "commits_s_by_decile": [round(rate, 1) for rate in deciles],
        "first_to_last": deciles[0] / deciles[-1] if len(deciles) == 10 else 0.0,
        **measured.figures(),
        **measured.costs(),
    }
