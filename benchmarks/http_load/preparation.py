"""Prepares branches, keys and histories for a workload on a server; each once in a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from benchmarks.http_load.connection import Requests

FILL_PUTS = 1_000
HISTORY_COMMITS = 300


class Refused(Exception):
    """The server refused a request of the preparation."""


class Caller:
    """Plain calls on one connection, one after the other; slow and simple."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self._connection: Any = None
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Returns status and body."""
        if self._connection is None:
            self._connection = await self.requests.connect(self._replied, self._lost)
        self._waiting = asyncio.get_running_loop().create_future()
        self._connection.send(request)
        return await self._waiting

    async def request(self, request: bytes) -> Any:
        """Returns the JSON of a reply, or raises if the server refused."""
        status, body = await self.call(request)
        if status >= 300:
            raise Refused(f"{status} to {request[:150]!r}: {body[:400]!r}")
        return json.loads(body) if body else None

    async def get(self, path: str) -> Any:
        return await self.request(self.requests.get(path))

    async def post(self, path: str, body: object) -> Any:
        return await self.request(self.requests.post(path, json.dumps(body).encode()))

    def _replied(self, status: int, body: bytes) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((status, body))

    def _lost(self, error: Exception | None) -> None:
        self._connection = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionError("the server hung up"))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def put(elements: Sequence[str], number: int, content_id: str | None = None) -> bytes:
    """Returns a put of a table as JSON; written by hand because it is in the busiest loop."""
    key = '","'.join(elements)
    known = f'"id":"{content_id}",' if content_id else ""
    return (
        f'{{"type":"PUT","key":{{"elements":["{key}"]}},"content":{{"type":"ICEBERG_TABLE",{known}'
        f'"metadataLocation":"s3://lake/warehouse/t{number}/metadata/{number:05}.metadata.json",'
        f'"snapshotId":{number},"schemaId":1,"specId":1,"sortOrderId":1}}}}'
    ).encode()


def put_namespace(elements: Sequence[str]) -> bytes:
    content = {"type": "NAMESPACE", "elements": list(elements), "properties": {}}
    operation = {"type": "PUT", "key": {"elements": list(elements)}, "content": content}
    return json.dumps(operation).encode()


def commit_body(puts: Iterable[bytes]) -> bytes:
    head = b'{"commitMeta":{"message":"measured","authors":["load"]},"operations":['
    return head + b",".join(puts) + b"]}"


def hash_after_commit(body: bytes) -> str:
    """Returns the new hash of the branch from the reply to a commit, without parsing the rest."""
    at = body.find(b'"', body.index(b'"hash"') + 6) + 1
    return body[at : body.index(b'"', at)].decode()


class Preparation:
    """The prepared branches of a server; their names are unique to the run.

    `callers` are those that the clients are, one after the other; without any, all clients are the
    one that prepares.
    """

    def __init__(self, requests: Requests, run: str, callers: Sequence[Requests] = ()) -> None:
        self.requests = requests
        self.run = run
        self._callers = callers or (requests,)
        self.caller = Caller(requests)
        self.numbers = count(1)
        self._branches: dict[str, tuple[str, str]] = {}

    def name(self, purpose: str) -> str:
        """Returns a new name for a branch."""
        return f"{self.run}-{purpose}-{next(self.numbers)}"

    def requests_of(self, client: int) -> Requests:
        """Returns how one of the clients sends requests, counted from 0."""
        return self._callers[client % len(self._callers)]

    async def branch(self, purpose: str, source: tuple[str, str] | None = None) -> tuple[str, str]:
        """Creates a branch; returns its name and hash. Without a source it has only a namespace."""
        from_name, at = source or await self.root()
        name = self.name(purpose)
        body = {"type": "BRANCH", "name": from_name, "hash": at}
        created = await self.caller.post(f"/trees?name={name}&type=BRANCH", body)
        return name, created["reference"]["hash"]

    async def commit(self, branch: tuple[str, str], puts: Iterable[bytes]) -> tuple[str, str]:
        """Commits on a branch; returns its name and its new hash."""
        name, at = branch
        request = self.requests.post(f"/trees/{name}@{at}/history/commit", commit_body(puts))
        status, body = await self.caller.call(request)
        if status != 200:
            raise Refused(f"{status} to a commit on {name}: {body[:400]!r}")
        return name, hash_after_commit(body)

    async def root(self) -> tuple[str, str]:
        """Returns a branch with only the namespace `ns`."""
        if "root" not in self._branches:
            empty = (await self.caller.get("/config"))["noAncestorHash"]
            branch = await self.branch("root", ("main", empty))
            self._branches["root"] = await self.commit(branch, [put_namespace(["ns"])])
        return self._branches["root"]

    async def filled(self, keys: int) -> tuple[str, str]:
        """Returns a branch with the tables ns.t0, ns.t1 and so on."""
        branch = self._branches.get(f"keys{keys}")
        if branch is None:
            branch = await self.branch(f"keys{keys}")
            for first in range(0, keys, FILL_PUTS):
                numbers = range(first, min(first + FILL_PUTS, keys))
                branch = await self.commit(branch, [put(["ns", f"t{n}"], n) for n in numbers])
            self._branches[f"keys{keys}"] = branch
        return branch

    async def long_history(self) -> tuple[str, str]:
        """Returns a branch of a few hundred commits."""
        branch = self._branches.get("history")
        if branch is None:
            branch = await self.branch("history")
            for number in range(HISTORY_COMMITS):
                branch = await self.commit(branch, [put(["ns", f"l{number}"], number)])
            self._branches["history"] = branch
        return branch

    async def changed(self, keys: int, changes: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """Returns two branches of that many keys; the second has a few more."""
        base = await self.filled(keys)
        branch = self._branches.get(f"changed{keys}")
        if branch is None:
            branch = await self.branch(f"changed{keys}", base)
            branch = await self.commit(branch, [put(["ns", f"d{n}"], n) for n in range(changes)])
            self._branches[f"changed{keys}"] = branch
        return base, branch
