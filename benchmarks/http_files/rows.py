"""The rows: NAME or NAME:CLIENTS. A row prepares its branches, then returns a script per client.

The figures of a row are those of one kind of request, all others are on the way to it: the row of a
commit of ten staged files also stages them, and only its commits are counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random
from typing import Any, NamedTuple

from benchmarks.http_files.api import Branch
from benchmarks.http_files.preparation import KILOBYTE, SMALL, Preparation, path
from benchmarks.http_files.script import Script, Scripted
from benchmarks.http_load.drive import drive

# Branches that are merged, as in the rows of the comparison with Nessie.
MERGES = 500

# Requests that a reader chooses among.
_READS = 2_000


class Prepared(NamedTuple):
    """The scripts of a row, and the branch on which all of them commit, if that is looked at."""

    scripts: Sequence[Script]
    branch: str = ""


Build = Callable[[Preparation, int], Awaitable[Prepared]]


class Row(NamedTuple):
    """A row: how it is called, how it is built, and which requests count."""

    title: str
    build: Build
    kind: str = "call"
    # The work is used up, or the window must be long enough for one: no warming up.
    once: bool = False


def _upload(*, own: bool) -> Build:
    async def build(preparation: Preparation, clients: int) -> Prepared:
        branches = [await preparation.branch("upload") for _ in range(clients if own else 1)]
        folder = preparation.name("f")
        numbers = count()
        upload = preparation.api.upload

        def script(branch: str) -> Script:
            for number in numbers:
                yield "call", upload(branch, path(folder, number), KILOBYTE)

        return Prepared([script(branches[one % len(branches)].name) for one in range(clients)])

    return build


async def _stage(preparation: Preparation, clients: int) -> Prepared:
    files = preparation.scaled(10_000)
    base = await preparation.committed(files)
    branch = await preparation.branch("stage", base)
    folder, numbers = preparation.name("f"), count()
    copy, commit = preparation.api.stage_copy, preparation.api.at(base.hash)

    def script() -> Script:
        for number in numbers:
            source = path("data", number % files)
            yield "call", copy(branch.name, path(folder, number), commit, source)

    return Prepared([script() for _ in range(clients)])


def _read_randomly(requests: Sequence[bytes], seed: int) -> Script:
    pick = Random(seed)
    while True:
        yield "call", requests[int(pick.random() * len(requests))]


def _reads(where: str, files: int, what: str) -> Build:
    """Reads of single files, each at random: of a branch, or of a commit by its hash."""

    async def build(preparation: Preparation, clients: int) -> Prepared:
        prepare = preparation.staged if where == "staged" else preparation.committed
        many = preparation.scaled(files)
        branch = await prepare(many)
        ref = preparation.api.at(branch.hash) if where == "by hash" else branch.name
        read = preparation.api.stat if what == "stat" else preparation.api.get
        chosen = Random(1).sample(range(many), min(many, _READS))
        requests = [read(ref, path("data", number)) for number in chosen]
        return Prepared([_read_randomly(requests, client) for client in range(clients)])

    return build


def _repeated(find: Callable[[Preparation], Awaitable[bytes]]) -> Build:
    """The same request again and again."""

    async def build(preparation: Preparation, clients: int) -> Prepared:
        request = await find(preparation)
        return Prepared([_read_randomly([request], client) for client in range(clients)])

    return build


def _list(where: str) -> Build:
    async def find(preparation: Preparation) -> bytes:
        prepare = preparation.staged if where == "staged" else preparation.committed
        branch = await prepare(preparation.scaled(10_000))
        return preparation.api.list_files(branch.name, 1_000)

    return _repeated(find)


def _diff(files: int) -> Build:
    async def find(preparation: Preparation) -> bytes:
        left, right = await preparation.changed(preparation.scaled(files), 10)
        return preparation.api.diff(left.name, right.name)

    return _repeated(find)


async def _uncommitted(preparation: Preparation) -> bytes:
    base = await preparation.committed(preparation.scaled(100_000))
    branch = await preparation.branch("uncommitted", base)
    await preparation.stage(branch.name, "data/more", 10)
    return preparation.api.list_uncommitted(branch.name)


async def _log(preparation: Preparation) -> bytes:
    return preparation.api.log((await preparation.long_history(preparation.scaled(300))).name, 100)


async def _create(preparation: Preparation, clients: int) -> Prepared:
    root = await preparation.root()
    api = preparation.api

    def script() -> Script:
        while True:
            yield "call", api.create_branch(preparation.name("made"), root)

    return Prepared([script() for _ in range(clients)])


def _commit(staged: int, files: int) -> Build:
    """Stages files and commits them, again and again, on a branch of so many files for each."""

    async def build(preparation: Preparation, clients: int) -> Prepared:
        base = await preparation.committed(preparation.scaled(files) if files else 0)
        branches = [await preparation.branch("commit", base) for _ in range(clients)]
        api, many = preparation.api, preparation.scaled(staged)

        def script(branch: str) -> Script:
            for number in count():
                for at in range(many):
                    yield "stage", api.upload(branch, path(f"data/new/{number}", at), SMALL)
                yield "commit", api.commit(branch, "measured")

        return Prepared([script(branch.name) for branch in branches])

    return build


async def _commit_once(preparation: Preparation, clients: int) -> Prepared:
    branches = [await preparation.branch("large") for _ in range(clients)]
    for branch in branches:
        await preparation.stage(branch.name, "data", preparation.scaled(100_000))

    def script(branch: Branch) -> Script:
        yield "commit", preparation.api.commit(branch.name, "measured")

    return Prepared([script(branch) for branch in branches])


def _upload_commit(*, own: bool) -> Build:
    """Uploads a file and commits, again and again; another client's commit may take the file."""

    async def build(preparation: Preparation, clients: int) -> Prepared:
        branches = [await preparation.branch("pairs") for _ in range(clients if own else 1)]
        folder, numbers = preparation.name("f"), count()
        api = preparation.api

        def script(branch: str) -> Script:
            for number in numbers:
                yield "upload", api.upload(branch, path(folder, number), KILOBYTE)
                yield "commit", api.commit(branch, "measured", allow_empty=not own)

        scripts = [script(branches[one % len(branches)].name) for one in range(clients)]
        return Prepared(scripts, "" if own else branches[0].name)

    return build


async def _upload_fresh(preparation: Preparation, clients: int) -> Prepared:
    """Half of the clients upload on condition that there is no such file, the others commit."""
    branch = (await preparation.branch("fresh")).name
    folder, numbers = preparation.name("f"), count()
    api = preparation.api

    def upload() -> Script:
        for number in numbers:
            yield "call", api.upload(branch, path(folder, number), KILOBYTE, fresh=True)

    def commit() -> Script:
        for number in numbers:
            yield "other", api.upload(branch, path(folder, number), KILOBYTE)
            yield "other", api.commit(branch, "measured", allow_empty=True)

    return Prepared([upload() if one % 2 == 0 else commit() for one in range(clients)])


async def _merge(preparation: Preparation, clients: int) -> Prepared:
    root = await preparation.branch("target")
    # A merge into a branch that has nothing of its own would only move it.
    await preparation.stage(root.name, "target", 1)
    target = await preparation.commit(root.name)
    sources = await preparation.sources(preparation.scaled(MERGES), 10)
    api = preparation.api

    def script() -> Script:
        while sources:
            yield "call", api.merge(sources.pop(), target)

    return Prepared([script() for _ in range(clients)])


ROWS: dict[str, Row] = {
    "upload-one": Row("upload 1 KB, one branch", _upload(own=False)),
    "upload-own": Row("upload 1 KB, branch per client", _upload(own=True)),
    "stage": Row("stage object, one request", _stage),
    "stat-staged": Row("stat, staged", _reads("staged", 10_000, "stat")),
    "stat-committed": Row("stat, committed, by branch", _reads("committed", 10_000, "stat")),
    "stat-by-hash": Row("stat by commit id", _reads("by hash", 10_000, "stat")),
    "get-100b": Row("get 100 B object, committed", _reads("committed", 10_000, "get")),
    "list-staged": Row("list 1000 of 10k, staged", _list("staged")),
    "list-committed": Row("list 1000 of 10k, committed", _list("committed")),
    "create-branch": Row("create branch", _create),
    "commit-10": Row("commit 10 staged, empty base", _commit(10, 0), "commit"),
    "commit-10-on-10k": Row("commit 10 staged on 10k objects", _commit(10, 10_000), "commit"),
    "commit-1000": Row("commit 1000 staged, empty base", _commit(1_000, 0), "commit"),
    "commit-1000-on-10k": Row(
        "commit 1000 staged on 10k objects", _commit(1_000, 10_000), "commit"
    ),
    "commit-100k": Row("commit of 100k staged, once", _commit_once, "commit", once=True),
    "upload-commit-own": Row("upload 1 + commit, own branch", _upload_commit(own=True), "commit"),
    "upload-commit-one": Row("upload 1 + commit, one branch", _upload_commit(own=False), "commit"),
    "upload-fresh": Row("conditional upload of a fresh key during commits", _upload_fresh),
    "merge-10": Row("merge of 10 changes", _merge, once=True),
    "diff-10-of-10k": Row("diff two-dot, 10 changes in 10k", _diff(10_000)),
    "diff-10-of-100k": Row("diff two-dot, 10 changes in 100k", _diff(100_000)),
    "uncommitted-10-of-100k": Row("diff of staged changes, 10 in 100k", _repeated(_uncommitted)),
    "log-100": Row("log of 100 commits", _repeated(_log)),
}


def split(row: str) -> tuple[str, int]:
    """Returns the name of a row and its number of clients; raises ValueError for no row."""
    name, _, clients = row.partition(":")
    if name not in ROWS or not (clients or "1").isdigit() or clients == "0":
        raise ValueError(f"{row!r} is no NAME or NAME:CLIENTS; names are {', '.join(ROWS)}")
    return name, int(clients or 1)


async def measure(
    preparation: Preparation, row: str, *, seconds: float, warm_s: float, pids: Sequence[int]
) -> dict[str, Any]:
    """Prepares one row and drives it; returns its figures."""
    name, clients = split(row)
    chosen = ROWS[name]
    prepared = await chosen.build(preparation, clients)
    scripted = [Scripted(script) for script in prepared.scripts]
    warm_s = 0.0 if chosen.once else warm_s
    requests = preparation.api.requests
    measured = await drive(requests, scripted, seconds=seconds, warm_s=warm_s, pids=pids)
    counted = len(measured.times.get(chosen.kind, ()))
    found = measured.figures(chosen.kind) if counted else {}
    found |= measured.costs() | {"counted": counted}
    cores = measured.cores
    found["server_cpu_ms_per_counted"] = cores.server * cores.wall_s / max(1, counted) * 1e3
    if prepared.branch:
        commits, with_files = await preparation.count_commits(prepared.branch)
        found["empty_share"] = 1 - with_files / max(1, commits)
    return found
