"""Many clients at once on the files, tables and branches of one repository.

Every request is recorded with its answer, and with the moments before it was sent and after it was
answered. A client checks nothing: what happened is compared when all clients have ended.

Every write of a file has a value of its own, in the metadata of the file, so that a value that was
read names its write. A copy and an update have a value of their own too; their bytes begin with the
value of the put that they come from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from random import Random
from threading import Lock, Thread
from time import monotonic_ns
from typing import Any, Final

import msgspec

from lochan.base.errors import LochanError, NotFound
from lochan.model.commits import Delete, Put
from lochan.model.files import FileInfo
from tests.service.bench import table, where

PATHS: Final = ("a", "a/1", "a/2", "b/1", "b/2", "b/3", "c", "c/1")
PREFIX: Final = "a/"
TABLES: Final = ("t", "u", "v")
BRANCHES: Final = ("main", "main", "main", "one", "one", "two", "three")
MOVED: Final = ("two", "three")
"""Branches that are reset to other commits."""

GONE: Final = "three"
"""The branch that is deleted and created again."""

BEHAVIOURS: Final = ("NORMAL", "NORMAL", "FORCE", "TAKE_TARGET_ON_CONFLICT", "DROP")

# Larger than what is kept in the store itself, so that it is a block of the place for objects.
LARGE: Final = 20_000


# Threads of one process take turns much more often than by default, so that they meet each other.
SWITCH_S: Final = 0.000_05


class Done(msgspec.Struct, kw_only=True):
    """One request and its answer.

    `value` is that of a write. `expected` is a commit, or the ETag that a conditional write
    demands ("" for no file). `tables` is what a commit does to tables, None for a deletion.
    """

    kind: str
    branch: str
    answer: Any = None
    start: int = 0
    end: int = 0
    path: str = ""
    paths: tuple[str, ...] = ()
    value: str = ""
    expected: str | None = None
    source: str = ""
    behaviour: str = "NORMAL"
    message: str = ""
    tables: dict[str, str | None] = {}
    discard: bool = False

    @property
    def refused(self) -> bool:
        return isinstance(self.answer, LochanError)

    def __str__(self) -> str:
        where = f"{self.branch} {self.path or self.paths} value={self.value!r}"
        how = f"expected={self.expected} source={self.source} {self.behaviour} {self.tables}"
        return f"{self.kind} {where} {how} [{self.start}..{self.end}] -> {self.answer}"


Call = Callable[[], Any]
Request = tuple[Done, Call]


class Shared:
    """What the clients of one repository know together."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.done: list[Done] = []
        self.commits: list[str] = []
        self.etags: dict[tuple[str, str], str] = {}
        """ETags that were seen lately, by branch and path."""

        self.tables: dict[str, dict[str, Any]] = {}
        """Tables of commits that were read."""

        self.heads: dict[str, str] = {}
        """Where branches were when they were read last."""

        self.failures: list[BaseException] = []

    def record(self, done: Done) -> None:
        commit = getattr(done.answer, "hash", None)
        with self.lock:
            self.done.append(done)
            if done.kind in COMMITTING and commit and getattr(done.answer, "applied", True):
                self.commits.append(commit)


def infos_of(answer: Any) -> list[FileInfo]:
    """Returns what an answer states about files."""
    found = answer if isinstance(answer, list) else [answer]
    return [one for one in found if isinstance(one, FileInfo)]


def body_of(value: str) -> bytes:
    """Returns the bytes of a put; some are large."""
    size = LARGE if value.endswith("7") else 20
    return f"{value}|".encode().ljust(size, b".")


def origin_of(body: bytes) -> str:
    """Returns the value of the put that bytes come from; they must be whole."""
    value = body.partition(b"|")[0].decode()
    assert body == body_of(value), "half a file was read"
    return value


def sha_of(value: str) -> str:
    return sha256(body_of(value)).hexdigest()


class FileClient:
    """One client and its generator of requests."""

    def __init__(self, system: Any, shared: Shared, seed: int) -> None:
        self.system = system
        self.files = system.files
        self.shared = shared
        self.pick = Random(seed)
        self.seed = seed
        self.number = 0

    def run(self, count: int) -> None:
        """Does so many requests; an error that is none of ours ends it and is kept."""
        try:
            sent = 0
            while sent < count:
                sent += self.step()
        except Exception as error:
            self.shared.failures.append(error)

    def step(self) -> int:
        """Sends one request; returns 0 if there was nothing to ask for."""
        self.number += 1
        kind = self.pick.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        wanted: Request | None = getattr(self, kind)(self.pick.choice(BRANCHES))
        if wanted is None:
            return 0
        done, call = wanted
        done.start = monotonic_ns()
        try:
            done.answer = call()
        except LochanError as error:
            done.answer = error
        done.end = monotonic_ns()
        self.note_etags(done)
        self.shared.record(done)
        return 1

    def note_etags(self, done: Done) -> None:
        for one in infos_of(done.answer):
            self.shared.etags[done.branch, one.path] = one.etag

    def new_value(self) -> str:
        return f"{self.seed}.{self.number}"

    def path(self) -> str:
        return self.pick.choice(PATHS)

    # Writes of files.

    def put(self, branch: str) -> Request:
        path, value = self.path(), self.new_value()
        done = Done(kind="put", branch=branch, path=path, value=value)
        return done, lambda: self.files.put(
            branch, path, body_of(value), metadata={"w": value}, sha256=sha_of(value)
        )

    def put_if_absent(self, branch: str) -> Request:
        path, value = self.path(), self.new_value()
        done = Done(kind="put_if", branch=branch, path=path, value=value, expected="")
        return done, lambda: self.files.put(
            branch, path, body_of(value), metadata={"w": value}, if_absent=True
        )

    def put_if_match(self, branch: str) -> Request | None:
        path, value = self.path(), self.new_value()
        etag = self.shared.etags.get((branch, path))
        if etag is None:
            return None
        done = Done(kind="put_if", branch=branch, path=path, value=value, expected=etag)
        return done, lambda: self.files.put(
            branch, path, body_of(value), metadata={"w": value}, if_match=etag
        )

    def delete(self, branch: str) -> Request:
        path = self.path()
        done = Done(kind="delete", branch=branch, path=path)
        return done, lambda: self.files.delete(branch, path)

    def delete_if_match(self, branch: str) -> Request | None:
        path = self.path()
        etag = self.shared.etags.get((branch, path))
        if etag is None:
            return None
        done = Done(kind="delete_if", branch=branch, path=path, expected=etag)
        return done, lambda: self.files.delete(branch, path, if_match=etag)

    def delete_many(self, branch: str) -> Request:
        paths = tuple(self.pick.sample(PATHS, 2))
        done = Done(kind="delete_many", branch=branch, paths=paths)
        return done, lambda: self.files.delete_many(branch, paths)

    def copy(self, branch: str) -> Request:
        path, value, source = self.path(), self.new_value(), self.pick.choice(BRANCHES)
        origin = self.path()
        done = Done(
            kind="copy", branch=branch, path=path, value=value, source=source, paths=(origin,)
        )
        return done, lambda: self.files.copy(
            branch, path, origin, source=source, metadata={"w": value}
        )

    def update(self, branch: str) -> Request:
        path, value = self.path(), self.new_value()
        done = Done(
            kind="update", branch=branch, path=path, value=value, source=branch, paths=(path,)
        )
        return done, lambda: self.files.update(branch, path, metadata={"w": value})

    # Reads.

    def stat(self, branch: str) -> Request:
        path = self.path()
        done = Done(kind="stat", branch=branch, path=path)
        return done, lambda: self.files.stat(branch, path)

    def read(self, branch: str) -> Request:
        path = self.path()
        done = Done(kind="read", branch=branch, path=path)
        return done, lambda: origin_of(self.files.read(branch, path))

    def list(self, branch: str) -> Request:
        done = Done(kind="list", branch=branch)
        return done, lambda: list_of(self.system, branch)

    def uncommitted(self, branch: str) -> Request:
        done = Done(kind="uncommitted", branch=branch)
        return done, lambda: self.files.uncommitted(branch).items

    def log(self, branch: str) -> Request:
        path = self.path()
        done = Done(kind="log", branch=branch, path=path)
        return done, lambda: [
            entry.meta.hash for entry in self.files.log(branch, paths=[path], limit=3).items
        ]

    def table(self, branch: str) -> Request:
        key = self.pick.choice(TABLES)
        done = Done(kind="table", branch=branch, path=key)
        return done, lambda: where(self.system.contents.get(branch, (key,))[0])

    # Commits.

    def commit(self, branch: str) -> Request:
        message = self.new_value()
        done = Done(kind="commit", branch=branch, message=message)
        return done, lambda: self.files.commit(branch, message)

    def commit_both(self, branch: str) -> Request | None:
        return self.with_tables("commit_both", branch, self.files.commit)

    def commit_tables(self, branch: str) -> Request | None:
        return self.with_tables("commit_tables", branch, self.system.commits.commit)

    def with_tables(self, kind: str, branch: str, send: Any) -> Request | None:
        expected, message = self.head_lately(branch), self.new_value()
        if expected is None:
            return None
        key = self.pick.choice(TABLES)
        there = self.tables_of(expected).get(key)
        operation: Put | Delete = Delete(key=(key,))
        if there is None or self.pick.random() < 0.7:
            content = table(message)
            if there is not None:
                content = msgspec.structs.replace(content, id=there.id)
            operation = Put(key=(key,), content=content)
        value = message if isinstance(operation, Put) else None
        done = Done(
            kind=kind, branch=branch, message=message, expected=expected, tables={key: value}
        )
        return done, lambda: send(branch, message, [operation], expected=expected)

    def tables_of(self, commit: str) -> dict[str, Any]:
        known = self.shared.tables.get(commit)
        if known is None:
            entries = self.system.contents.iterate(f"@{commit}", with_content=True)
            known = {entry.key[0]: entry.content for entry in entries}
            self.shared.tables[commit] = known
        return known

    def head(self, branch: str) -> str | None:
        with suppress(NotFound):
            found: str = self.system.references.get(branch).hash
            self.shared.heads[branch] = found
            return found
        return None

    def head_lately(self, branch: str) -> str | None:
        """Returns where a branch is, or where it was not long ago."""
        known = self.shared.heads.get(branch)
        return known if known is not None and self.pick.random() < 0.4 else self.head(branch)

    def some_commit(self) -> str | None:
        known = self.shared.commits
        return self.pick.choice(known[-40:]) if known else None

    # What carries changes.

    def merge(self, branch: str) -> Request | None:
        source = self.head(self.pick.choice([one for one in BRANCHES if one != branch]))
        if source is None:
            return None
        message, behaviour = self.new_value(), self.pick.choice(BEHAVIOURS)
        done = Done(
            kind="merge", branch=branch, source=source, message=message, behaviour=behaviour
        )
        return done, lambda: self.system.merges.merge(
            branch, f"@{source}", message, default=behaviour, conflicts_as_result=True
        )

    def cherry_pick(self, branch: str) -> Request | None:
        source = self.some_commit()
        if source is None:
            return None
        message, behaviour = self.new_value(), self.pick.choice(BEHAVIOURS)
        done = Done(
            kind="cherry_pick", branch=branch, source=source, message=message, behaviour=behaviour
        )
        return done, lambda: self.system.merges.cherry_pick(
            branch, [source], message, default=behaviour, conflicts_as_result=True
        )

    def revert(self, branch: str) -> Request | None:
        try:
            line = [entry.meta.hash for entry in self.system.history.log(branch, 4).items]
        except NotFound:
            return None
        source, message = self.pick.choice(line), self.new_value()
        done = Done(kind="revert", branch=branch, source=source, message=message)
        return done, lambda: self.system.merges.revert(
            branch, [source], message, conflicts_as_result=True
        )

    # Resets and branches.

    def reset(self, branch: str) -> Request:
        done = Done(kind="reset", branch=branch, paths=PATHS)
        return done, lambda: self.files.reset(branch)

    def reset_prefix(self, branch: str) -> Request:
        paths = tuple(path for path in PATHS if path.startswith(PREFIX))
        done = Done(kind="reset_some", branch=branch, paths=paths)
        return done, lambda: self.files.reset(branch, prefix=PREFIX)

    def reset_path(self, branch: str) -> Request:
        path = self.path()
        done = Done(kind="reset_some", branch=branch, paths=(path,))
        return done, lambda: self.files.reset(branch, path=path)

    def hard_reset(self, _: str) -> Request | None:
        branch, target = self.pick.choice(MOVED), self.some_commit()
        if target is None:
            return None
        discard = self.pick.random() < 0.5
        done = Done(kind="hard_reset", branch=branch, source=target, discard=discard)
        return done, lambda: self.files.hard_reset(branch, f"@{target}", discard_staged=discard)

    def create(self, _: str) -> Request | None:
        source = self.head(self.pick.choice(("main", "one")))
        if source is None:
            return None
        done = Done(kind="create", branch=GONE, source=source)
        return done, lambda: self.system.references.create(GONE, f"@{source}")

    def drop(self, _: str) -> Request:
        done = Done(kind="drop", branch=GONE)
        return done, lambda: self.system.references.delete(GONE)


def list_of(system: Any, spec: str) -> list[FileInfo]:
    """Returns all files of a branch or a commit, in one page."""
    page = system.files.list(spec, limit=100)
    assert page.token is None
    return list(page.items)


COMMITTING: Final = ("commit", "commit_both", "commit_tables", "merge", "cherry_pick", "revert")
WEIGHTS: Final = {
    "put": 20,
    "put_if_absent": 5,
    "put_if_match": 5,
    "delete": 6,
    "delete_if_match": 2,
    "delete_many": 2,
    "copy": 4,
    "update": 4,
    "stat": 8,
    "read": 4,
    "list": 5,
    "uncommitted": 3,
    "log": 2,
    "table": 2,
    "commit": 9,
    "commit_both": 3,
    "commit_tables": 4,
    "merge": 6,
    "cherry_pick": 2,
    "revert": 2,
    "reset": 0.7,
    "reset_prefix": 0.7,
    "reset_path": 1.5,
    "hard_reset": 1.5,
    "create": 1.5,
    "drop": 1,
}


def prepare(system: Any) -> list[Done]:
    """Makes the first commits and the branches; returns what that did, in the order done."""
    shared = Shared()
    client = FileClient(system, shared, 0)
    for path in PATHS[::2]:
        client.number += 1
        value = client.new_value()
        done = Done(kind="put", branch="main", path=path, value=value, start=monotonic_ns())
        done.answer = system.files.put("main", path, body_of(value), metadata={"w": value})
        done.end = monotonic_ns()
        shared.record(done)
    content = table("first")
    done = Done(kind="commit_both", branch="main", message="first", tables={"t": "first"})
    done.expected = client.head("main")
    done.start = monotonic_ns()
    done.answer = system.files.commit("main", "first", [Put(key=("t",), content=content)])
    done.end = monotonic_ns()
    shared.record(done)
    for name in ("one", "two", "three"):
        done = Done(kind="create", branch=name, source=done.answer.hash, start=monotonic_ns())
        made = system.references.create(name, "main")
        done.answer, done.end = made, monotonic_ns()
        shared.record(done)
    return shared.done


def run_crowd(systems: Sequence[Any], seed: int, count: int) -> Shared:
    """Runs one client in each of as many threads until so many requests were sent in all."""
    first = prepare(systems[0])
    shared = Shared()
    shared.done += first
    clients = [FileClient(one, shared, 1 + seed * 100 + at) for at, one in enumerate(systems)]
    each = -(-count // len(clients))
    threads = [Thread(target=client.run, args=(each,)) for client in clients]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    if shared.failures:
        raise shared.failures[0]
    return shared
