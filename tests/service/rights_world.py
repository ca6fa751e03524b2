"""Branches with keys that some callers may not see, and all kinds of writes; holds no test.

`main` and `side` have parted. `side` has changed, added and removed keys whose names and contents
have the word `canary`, among many others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.policy import Action, Call
from lochan.base.errors import Denied, LochanError
from lochan.model.commits import CommitMeta, Delete, Put
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    NewReference,
    RebaseRequest,
    TransplantRequest,
)
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from tests.service.bench import ME, Bench, key, new
from tests.service.key_policies import CANARY, shown

KEYED = Call("me", "key", b"one request")
META = CommitMeta(message="m")
MAIN, SIDE = parse_spec("main"), parse_spec("side")
READ, WRITE, DELETE = Action.READ_CONTENT, Action.WRITE_CONTENT, Action.DELETE_CONTENT

Write = Callable[[Repository, Call], Any]

# What `side` has done since: to a key that was there, to one that was not, and to one that is gone.
CHANGED, ADDED, REMOVED = f"ns.{CANARY}1", f"ns.{CANARY}2", f"ns.{CANARY}3"


def parted() -> Bench:
    one = Bench()
    one.fill("ns.a", "ns.b", CHANGED, REMOVED, *[f"ns.t{number}" for number in range(20)])
    one.branch("old")
    one.branch("side")
    one.change("ns.a", "side", branch="side")
    one.change(CHANGED, f"{CANARY} changed", branch="side", message=f"{CANARY} in a message")
    one.commit(new(ADDED), Delete(key=key(REMOVED)), branch="side")
    one.change("ns.t3", "side", branch="side")
    return one


def line(one: Repository) -> tuple[ReferenceSpec, ...]:
    """The commits that only `side` has, oldest first."""
    return _line(one, 4)


def _line(one: Repository, count: int) -> tuple[ReferenceSpec, ...]:
    open_one = Repository(one.context)
    log = open_one.history.log(ME, SIDE, count).items
    return tuple(ReferenceSpec(None, entry.meta.hash) for entry in reversed(log))


def merge(one: Repository, call: Call, **more: Any) -> Any:
    return one.merges.merge(call, MergeRequest(branch="main", source=SIDE, **more))


def transplant(one: Repository, call: Call, **more: Any) -> Any:
    request = TransplantRequest(branch="main", source="side", hashes=line(one), **more)
    return one.merges.transplant(call, request)


def cherry_pick(one: Repository, call: Call, **more: Any) -> Any:
    request = TransplantRequest(branch="main", source="side", hashes=line(one), **more)
    return one.merges.cherry_pick(call, request)


def assign(one: Repository, call: Call) -> Any:
    return one.references.assign(call, "main", None, SIDE)


def fast_forward(one: Repository, call: Call) -> Any:
    return one.merges.fast_forward(call, MoveRequest(branch="main", source=SIDE))


def force(one: Repository, call: Call) -> Any:
    return one.merges.force(call, MoveRequest(branch="main", source=SIDE))


def rebase(one: Repository, call: Call, **more: Any) -> Any:
    return one.merges.rebase(call, RebaseRequest(branch="main", onto=SIDE, **more))


MERGES: dict[str, Write] = {
    "merge": merge,
    "merge as result": lambda one, call: merge(one, call, conflicts_as_result=True),
    "merge replayed": lambda one, call: merge(one, call, squash=False),
    "merge by force": lambda one, call: merge(one, call, default="FORCE"),
    "merge dry": lambda one, call: merge(one, call, dry_run=True),
    "transplant": transplant,
    "transplant squashed": lambda one, call: transplant(one, call, squash=True),
    "transplant dry": lambda one, call: transplant(one, call, dry_run=True),
    "cherry-pick": cherry_pick,
    "cherry-pick as result": lambda one, call: cherry_pick(one, call, conflicts_as_result=True),
}
MOVES: dict[str, Write] = {
    "assign": assign,
    "fast-forward": fast_forward,
    "force": force,
    "rebase": rebase,
    "rebase dry": lambda one, call: rebase(one, call, dry_run=True),
}


WHOLE: dict[str, Write] = {
    **MOVES,
    "create": lambda one, call: one.references.create(call, NewReference(name="x", source=SIDE)),
    "create at a hash": lambda one, call: one.references.create(
        call, NewReference(name="x", source=ReferenceSpec("side", line(one)[0].hash))
    ),
    "create a tag": lambda one, call: one.references.create(
        call, NewReference(name="x", kind="TAG", source=SIDE)
    ),
    "create many": lambda one, call: one.references.create_many(
        call,
        [NewReference(name="y", source=parse_spec("old")), NewReference(name="x", source=SIDE)],
    ),
}


def do(server: Bench, write: Write, call: Call = ME) -> Any:
    prepared = write(server.repository, call)
    return server.run(prepared) if isinstance(prepared, PendingWrite) else prepared


def refused(
    server: Bench, write: Write, call: Call = ME, kind: type[LochanError] = Denied
) -> LochanError:
    """The refusal, which shows nothing of what is hidden."""
    with pytest.raises(kind) as caught:
        do(server, write, call)
    assert CANARY not in shown(caught.value)
    return caught.value


CALLS = pytest.mark.parametrize("call", [ME, KEYED], ids=["plain", "keyed"])


def commit(*operations: Any, expected: str | None = None) -> Write:
    def write(one: Repository, call: Call) -> Any:
        at = parse_spec(f"@{Repository(one.context).references.get(ME, 'main').hash}")
        return one.commits.commit(call, "main", at if expected is None else None, META, operations)

    return write


def renamed(bench: Bench, old: str, name: str) -> Write:
    content, _ = bench.contents.get(ME, MAIN, key(old))
    return commit(Delete(key=key(old)), Put(key=key(name), content=content))
