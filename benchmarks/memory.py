"""Measures the memory of a server with one repository and with many, with the same `cache_mb`.

    python -m benchmarks memory
    python -m benchmarks memory --repositories 20 --keys 2000 --operations 2000    a few seconds

A store in a temporary directory is filled, then a server is started on it as a process of its own.
One client reads a random table or commits to it, in a random repository. The resident memory of the
server is sampled meanwhile; the line `memory_relative` divides the two maxima.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from uuid import UUID

from benchmarks.http_load.preparation import commit_body, hash_after_commit, put
from benchmarks.http_load.processes import Served, start_lochan
from benchmarks.http_load.usage import resident_mb
from benchmarks.kernel import MAIN, PORTS
from benchmarks.measure import emit
from lochan.assembly import open_store
from lochan.base.errors import LochanError
from lochan.base.keys import table_key
from lochan.base.limits.storage import CACHE_BYTES_MAX
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import pack_table
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.publish import Publisher
from lochan.kernel.repository import create_repository
from lochan.kv.store import Store
from lochan.model.contents import IcebergTable

_CACHE_MB = CACHE_BYTES_MAX >> 20
_FILL_PUTS = 1_000
_SAMPLES = 50


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__)
    parser.add_argument("--repositories", type=int, default=200, help="default: 200")
    parser.add_argument("--keys", type=int, default=20_000, help="of each; default: 20000")
    parser.add_argument("--operations", type=int, default=30_000, help="default: 30000")
    parser.add_argument("--puts", type=int, default=10, help="of a commit; default: 10")
    parser.add_argument("--cache-mb", type=int, default=_CACHE_MB, help=f"default: {_CACHE_MB}")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    one, many = (_measure(count, chosen) for count in (1, chosen.repositories))
    emit("memory_relative", repositories=chosen.repositories, many_to_one=many / one)


def _measure(repositories: int, chosen: argparse.Namespace) -> float:
    """Returns the largest resident memory of a server, in megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"rocksdb:{folder}/store"
        began = time.monotonic()
        store = open_store(url)
        fill = [
            _Puts(range(start, min(start + _FILL_PUTS, chosen.keys)))
            for start in range(0, chosen.keys, _FILL_PUTS)
        ]
        for number in range(repositories):
            _fill(store, number, fill)
        store.close()
        filled_s = time.monotonic() - began
        with start_lochan(url, Path(folder), "--cache-mb", str(chosen.cache_mb)) as server:
            samples = [resident_mb([server.pid])]
            began = time.monotonic()
            with closing(_Client(server, repositories, chosen)) as client:
                for number in range(chosen.operations):
                    client.do_something()
                    if number % max(1, chosen.operations // _SAMPLES) == 0:
                        samples.append(resident_mb([server.pid]))
            samples.append(resident_mb([server.pid]))
            spent_s = time.monotonic() - began
    emit(
        "memory",
        repositories=repositories,
        keys=chosen.keys,
        cache_mb=chosen.cache_mb,
        operations=chosen.operations,
        puts=chosen.puts,
        start_mb=samples[0],
        end_mb=samples[-1],
        max_mb=max(samples),
        fill_s=filled_s,
        operations_per_s=chosen.operations / spent_s,
    )
    return max(samples)


class _Client:
    """Reads and commits, each every second time, at random places."""

    def __init__(self, server: Served, repositories: int, chosen: argparse.Namespace) -> None:
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._repositories = repositories
        self._keys = chosen.keys
        self._puts = chosen.puts
        self._random = Random(chosen.seed)
        self._heads: dict[int, str] = {}

    def close(self) -> None:
        self._connection.close()

    def do_something(self) -> None:
        repository = self._random.randrange(self._repositories)
        numbers = self._random.sample(range(self._keys), self._puts)
        path = f"/r/{_repository(repository)}/api/v2/trees/main"
        if self._random.random() < 0.5:
            self._call("GET", f"{path}/contents/{'.'.join(_elements(numbers[0]))}")
            return
        if repository not in self._heads:
            found = json.loads(self._call("GET", path))
            self._heads[repository] = found["reference"]["hash"]
        snapshot = self._random.randrange(1 << 30)
        puts = [put(_elements(number), snapshot, _content_id(number)) for number in numbers]
        reply = self._call(
            "POST", f"{path}@{self._heads[repository]}/history/commit", commit_body(puts)
        )
        self._heads[repository] = hash_after_commit(reply)

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status} to {method} {path}: {answer[:400]!r}")
        return answer


class _Puts:
    """The tables of some numbers, as one commit."""

    incarnation = None

    def __init__(self, numbers: range) -> None:
        types = ContentTypes()
        operations, objects = [], []
        for number in numbers:
            location = f"s3://lake/warehouse/t{number}/metadata/{number:05}.metadata.json"
            content_id = _content_id(number)
            table = IcebergTable(
                metadata_location=location,
                snapshot_id=number,
                schema_id=1,
                spec_id=1,
                sort_order_id=1,
            )
            obj_id, raw = types.encode(table, content_id)
            objects.append((obj_id, raw))
            element = pack_table(1, obj_id, UUID(content_id).bytes)
            operations.append(Operation(table_key(_elements(number)), element))
        self._plan = CommitPlan(operations, "fill", objects=objects)

    def plan(self, head: Head) -> Sequence[CommitPlan]:  # noqa: ARG002 - the same on every head
        return [self._plan]


def _fill(store: Store, repository: int, commits: Sequence[_Puts]) -> None:
    publisher = Publisher(create_repository(store, PORTS, _repository(repository)), MAIN)
    for commit in commits:
        (settled,) = publisher.publish([commit])
        if isinstance(settled, LochanError):
            raise settled


def _repository(number: int) -> str:
    return f"repository-{number}"


def _elements(number: int) -> list[str]:
    return ["warehouse", f"schema_{number % 200:03}", f"table_of_some_team_{number:07}"]


def _content_id(number: int) -> str:
    return str(UUID(int=(0xABCDEF << 96) + number))
