"""The catalog's service under the explorer: what actors do, as users of several servers would.

Every write goes through its server's lane and publisher, as the drivers do it. A commit states in a
property which contents its writer had read; that is what its place in history is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import LochanError
from lochan.base.ids import InstanceId
from lochan.base.names import RefName
from lochan.codec.rows import Description
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Proposal, Publisher, Settled
from lochan.kernel.repository import Ports, create_repository
from lochan.model.commits import (
    CommitMeta,
    Committed,
    ContentKey,
    Delete,
    Operation,
    Put,
    Unchanged,
)
from lochan.model.contents import Content, IcebergTable, Namespace
from lochan.model.references import Reference
from lochan.model.requests import MergeRequest, NewReference
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.service.pending_writes import PendingWrite
from lochan.service.repository import Repository
from lochan.testing.sim import Faults, Scenario, Server
from tests.service.bench import optional_spec
from tests.sim.catalog_checks import (
    RELIES,
    answers_agree,
    commits_are_done_once,
    commits_stand_on_what_they_saw,
    location,
    made_branches_take_commits,
    merges_are_whole,
    references_are_right,
    refusals_are_true,
)
from tests.sim.kernel_scenarios import in_turn, parts_of

Act = Callable[[Server], None]
_Answer = TypeVar("_Answer")

TABLE: ContentKey = ("ns", "t")
MAIN, SIDE = parse_spec("main"), parse_spec("side")
LOSSY = Faults(lost_reply=0.1, late=0.06, not_applied=0.04, most=3)


class App:
    """What one server has in memory: a repository, and for each branch a lane and a publisher."""

    def __init__(self, server: Server) -> None:
        self.repository = Repository(parts_of(server, server.world.prepared))
        self.lanes: dict[RefName, Lane[list[Any]]] = {}
        self.publishers: dict[RefName, Publisher] = {}

    def lane(self, branch: RefName) -> tuple[Lane[list[Any]], Publisher]:
        if branch not in self.lanes:
            self.lanes[branch] = Lane()
            self.publishers[branch] = self.repository.publisher(branch)
        return self.lanes[branch], self.publishers[branch]


def table(name: str, content_id: str | None = None) -> IcebergTable:
    return IcebergTable(
        id=content_id,
        metadata_location=name,
        snapshot_id=1,
        schema_id=1,
        spec_id=1,
        sort_order_id=1,
    )


def set_up(server: Server) -> tuple[InstanceId, Description]:
    """Namespaces, some tables on main, and a branch that has changed some of them."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    repository = Repository(context)
    names = [("ns", name) for name in ("t", "x", "y", "s", "o", "p")]
    spaces = [Namespace(elements=("ns",)), Namespace(elements=("free",))]
    first: list[Operation] = [Put(key=one.elements, content=one) for one in spaces]
    first += [Put(key=key, content=table(".".join(key))) for key in names]
    _at_once(repository, "main", "first", first)
    y = repository.contents.get(Call(), MAIN, ("ns", "y"))[0]
    _at_once(repository, "main", "second", [_moved(("ns", "y"), y)])
    side = NewReference(kind="BRANCH", name="side", source=MAIN)
    made = repository.references.create(Call(), side)
    (settled,) = repository.publisher(made.branch).publish([made.proposal])
    made.finish(settled)
    moved = {name: repository.contents.get(Call(), SIDE, ("ns", name))[0] for name in ("x", "s")}
    sn = Namespace(elements=("sn",))
    _at_once(
        repository, "side", "side0", [_moved(("ns", "x"), moved["x"]), Put(key=("sn",), content=sn)]
    )
    new = Put(key=("sn", "t"), content=table("sn.t"))
    _at_once(repository, "side", "side1", [_moved(("ns", "s"), moved["s"]), new])
    return context.instance, context.description


def _moved(key: ContentKey, content: Content) -> Put:
    return Put(key=key, content=table("aside", content.id))


def _at_once(repository: Repository, branch: str, message: str, does: list[Operation]) -> None:
    """Commits as of the head, outside of the simulation."""
    head = repository.references.get(Call(), branch).hash
    meta = CommitMeta(message=message)
    asked = repository.commits.commit(Call(), branch, parse_spec(head), meta, does)
    (settled,) = repository.publisher(asked.branch).publish([asked.proposal])
    asked.finish(settled)


def drive(server: Server, ask: Callable[[Repository], PendingWrite[_Answer]]) -> _Answer:
    """Prepares a write and waits in the lane of its branch."""
    # Another actor may publish for this one; so it begins here, before it can.
    server.pause("offer")
    asked = ask(server.app.repository)
    return asked.finish(_wait_in_lane(server, asked.branch, asked.proposal))


def _wait_in_lane(server: Server, branch: RefName, proposal: Proposal) -> Settled:
    lane, publisher = server.app.lane(branch)
    waiter: list[Any] = [proposal, None]
    lane.offer(waiter)
    while waiter[1] is None:
        batch = lane.take()
        if not batch:
            server.wait_until(lambda: waiter[1] is not None or lane.may_take)
            continue
        answers: list[Any]
        try:
            answers = list(publisher.publish([one[0] for one in batch]))
        except LochanError as error:
            answers = [error] * len(batch)
        for one, answer in zip(lane.settle(), answers, strict=True):
            one[1] = answer
    settled: Settled = waiter[1]
    return settled


Seen = Mapping[ContentKey, str]


def commit(
    server: Server,
    name: str,
    expected: str | None,
    does: Sequence[Operation],
    seen: Seen,
    branch: str = "main",
) -> Committed:
    """Commits under a name; a property states what was read before."""
    stated = tuple(f"{'.'.join(key)}={where}" for key, where in seen.items())
    meta = CommitMeta(message=name, properties=((RELIES, stated),) if stated else ())
    call = Call(principal=server.name)
    base = optional_spec(expected)
    return drive(server, lambda one: one.commits.commit(call, branch, base, meta, does))


def read(server: Server, *keys: ContentKey) -> tuple[dict[ContentKey, Content], str] | None:
    """Reads contents; returns them with the commit they were read from."""

    def look(_: Server) -> tuple[dict[ContentKey, Content], str]:
        found, reference = server.app.repository.contents.get_many(Call(), MAIN, keys)
        return dict(found), reference.hash

    return server.attempt("read", look, server)


def changed(content: Content, name: str) -> Content:
    result: Content = msgspec.structs.replace(content, metadata_location=name)
    return result


def updates(name: str, count: int, *keys: ContentKey, relies: ContentKey | None = None) -> Act:
    """Reads a table, and later updates it as of what was read; looks for it under several keys."""
    keys = keys or (TABLE,)

    def act(server: Server) -> None:
        for number in range(count):
            found = read(server, *keys, *([relies] if relies else []))
            at = [key for key in keys if found and key in found[0]]
            if found is None or not at:
                continue
            contents, expected = found
            content, made = contents[at[0]], f"{name}{number}"
            seen = {at[0]: location(content)}
            does: list[Operation] = [Put(key=at[0], content=changed(content, made))]
            if relies is not None:
                seen[relies] = location(contents.get(relies))
                does.append(Unchanged(key=relies))
            server.attempt("update", commit, server, made, expected, does, seen)

    return act


def keeps_to_itself(name: str, key: ContentKey, count: int) -> Act:
    """Updates a table of its own; what others do meanwhile it never learns."""

    def act(server: Server) -> None:
        found = read(server, key)
        if found is None:
            return
        content, expected = found[0][key], found[1]
        for number in range(count):
            made = f"{name}{number}"
            seen = {key: location(content)}
            does = [Put(key=key, content=changed(content, made))]
            done = server.attempt("own", commit, server, made, expected, does, seen)
            if done is None:
                return
            content, expected = does[0].content, done.hash

    return act


def renames(name: str, old: ContentKey, new: ContentKey) -> Act:
    def act(server: Server) -> None:
        found = read(server, old)
        if found is None or old not in found[0]:
            return
        content, expected = found[0][old], found[1]
        does = [Delete(key=old), Put(key=new, content=changed(content, name))]
        seen = {old: location(content), new: "nothing"}
        server.attempt("rename", commit, server, name, expected, does, seen)

    return act


def comes_and_goes(name: str, count: int) -> Act:
    """Makes a table in a namespace that may be gone, takes it away again, and so on."""

    def act(server: Server) -> None:
        found = read(server, ("free",))
        expected = None if found is None else found[1]
        for number in range(count):
            made = f"{name}{number}"
            key = ("free", name)
            does: list[Operation] = [Put(key=key, content=table(made))]
            # Some writers state an expected hash, and it is an old one.
            stale = expected if number == 0 else None
            done = server.attempt("create", commit, server, made, stale, does, {})
            if done is not None:
                server.attempt("drop", commit, server, f"{made}-", done.hash, [Delete(key=key)], {})

    return act


def drops_the_namespace(name: str, times: int) -> Act:
    """Takes the namespace away, and makes it again."""

    def act(server: Server) -> None:
        for number in range(times):
            made = f"{name}{number}"
            gone = [Delete(key=("free",))]
            if server.attempt("drop", commit, server, f"{made}-", None, gone, {}) is not None:
                again = [Put(key=("free",), content=Namespace(elements=("free",)))]
                server.attempt("create", commit, server, made, None, again, {})

    return act


def merges(name: str, *, squash: bool, times: int = 1) -> Act:
    def merge(server: Server, _: str) -> Merged:
        meta = CommitMeta(message=name)
        ask = MergeRequest(branch="main", expected=None, source=SIDE, meta=meta, squash=squash)
        return drive(server, lambda one: one.merges.merge(Call(principal=server.name), ask))

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("merge", merge, server, name)

    return act


def merges_a_table(name: str, source: str) -> Act:
    """Makes a branch and a table there, and merges it; by then main may have lost the namespace."""

    def merge(server: Server, _: str) -> Merged:
        meta = CommitMeta(message=f"{name}+")
        ask = MergeRequest(branch="main", expected=None, source=parse_spec(name), meta=meta)
        return drive(server, lambda one: one.merges.merge(Call(principal=server.name), ask))

    def branch(server: Server, _: str) -> Reference:
        new = NewReference(kind="BRANCH", name=name, source=parse_spec(source))
        return drive(server, lambda one: one.references.create(Call(principal=name), new))

    def act(server: Server) -> None:
        does = [Put(key=("free", name), content=table(name))]
        if server.attempt("branch", branch, server, name) is None:
            return
        if server.attempt("aside", commit, server, name, None, does, {}, name) is not None:
            server.attempt("create", merge, server, f"{name}+")

    return act


def sends(name: str, times: int, branch: str = "main") -> Act:
    """A client that sends one request with an idempotency key again and again."""

    def send(server: Server, _: str) -> Committed:
        call = Call(principal="client", idempotency_key=name, digest=name.encode())
        does = [Put(key=("ns", name), content=table(name))]
        meta = CommitMeta(message=name)
        return drive(server, lambda one: one.commits.commit(call, branch, None, meta, does))

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("sent", send, server, name)

    return act


def sends_a_merge(name: str, times: int) -> Act:
    """The same for a merge; only the commit is compared, the rest describes how it was made."""

    def send(server: Server, _: str) -> Committed:
        call = Call(principal="client", idempotency_key=name, digest=name.encode())
        meta = CommitMeta(message=name)
        ask = MergeRequest(branch="main", expected=None, source=SIDE, meta=meta)
        done = drive(server, lambda one: one.merges.merge(call, ask))
        return Committed("main", done.hash or "")

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("sent", send, server, name)

    return act


def look_at(server: Server, branch: str) -> Reference | None:
    get = server.app.repository.references.get
    return server.attempt("look", lambda _: get(Call(), branch), server)


def assigns(name: str, branch: str, target: str) -> Act:
    def assign(server: Server, who: str, expected: str) -> Reference:
        references = server.app.repository.references
        seen, goal = parse_spec(expected), parse_spec(target)
        return references.assign(Call(principal=who), branch, seen, goal, kind="BRANCH")

    def act(server: Server) -> None:
        found = look_at(server, branch)
        if found is not None:
            server.attempt("assign", assign, server, name, found.hash)

    return act


def makes(name: str) -> Act:
    def make(server: Server, who: str) -> Reference:
        new = NewReference(kind="BRANCH", name="one", source=MAIN)
        return drive(server, lambda one: one.references.create(Call(principal=who), new))

    def act(server: Server) -> None:
        server.attempt("make", make, server, name)

    return act


def deletes(name: str) -> Act:
    def delete(server: Server, who: str, expected: str) -> Reference:
        references = server.app.repository.references
        return references.delete(Call(principal=who), "one", parse_spec(expected), kind="BRANCH")

    def act(server: Server) -> None:
        found = look_at(server, "one")
        if found is not None:
            server.attempt("delete", delete, server, name, found.hash)

    return act


def commits_to_one(name: str, count: int) -> Act:
    def act(server: Server) -> None:
        for number in range(count):
            made = f"{name}{number}"
            does = [Put(key=("ns", made), content=table(made))]
            server.attempt("commit", commit, server, made, None, does, {}, "one")

    return act


CHECKS = {
    "history": commits_stand_on_what_they_saw,
    "commits": commits_are_done_once,
    "refusals": refusals_are_true,
}


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more["checks"] = {**CHECKS, **more.get("checks", {})}
    return Scenario(name=name, servers=servers, setup=set_up, open=App, **more)


SCENARIOS = [
    scenario(
        "stale updates of one table",
        {
            "s1": [updates("a", 2), in_turn(updates("b", 1), keeps_to_itself("o", ("ns", "o"), 2))],
            "s2": [in_turn(updates("c", 1), keeps_to_itself("p", ("ns", "p"), 2))],
        },
    ),
    scenario(
        "stale updates on held rows",
        {
            "s1": [updates("a", 2), updates("b", 2)],
            "s2": [in_turn(updates("c", 1), keeps_to_itself("p", ("ns", "p"), 2))],
        },
        row_locks=True,
    ),
    scenario(
        "tables that rely on each other",
        {
            "s1": [updates("a", 2, ("ns", "x"), relies=("ns", "y"))],
            "s2": [
                updates("b", 2, ("ns", "y"), relies=("ns", "x")),
                updates("c", 2, ("ns", "x"), relies=("ns", "t")),
            ],
        },
    ),
    scenario(
        "tables come while their namespace goes",
        {
            "s1": [comes_and_goes("a", 2), drops_the_namespace("m", 2)],
            "s2": [in_turn(comes_and_goes("b", 1), drops_the_namespace("n", 1))],
        },
    ),
    scenario(
        "a rename against updates",
        {
            "s1": [updates("a", 2, TABLE, ("ns", "u"))],
            "s2": [
                in_turn(renames("r", TABLE, ("ns", "u")), renames("q", ("ns", "u"), TABLE)),
                updates("b", 2, ("ns", "u"), TABLE),
            ],
        },
    ),
    scenario(
        "merges of a branch beside commits",
        {
            "s1": [
                merges("squash", squash=True, times=2),
                in_turn(updates("b", 1, ("ns", "x")), keeps_to_itself("o", ("ns", "o"), 1)),
            ],
            "s2": [merges("replay", squash=False), updates("c", 2, ("ns", "x"), ("ns", "t"))],
        },
        checks={"merges": merges_are_whole},
    ),
    scenario(
        "merges of a branch whose namespace goes",
        {
            "s1": [merges_a_table("d", "main~0"), keeps_to_itself("o", ("ns", "o"), 1)],
            "s2": [drops_the_namespace("m", 2), merges_a_table("e", "main~0")],
        },
    ),
    scenario(
        "one request from two servers",
        {
            "s1": [in_turn(sends("new", 2), sends_a_merge("merge", 1))],
            "s2": [in_turn(sends("new", 1), sends_a_merge("merge", 2))],
            "s3": [assigns("moved", "main", "main~1"), keeps_to_itself("o", ("ns", "o"), 1)],
        },
        checks={"answers": answers_agree, "refusals": lambda *_: None},
        faults=Faults(lost_reply=0.15, late=0.1, not_applied=0.05, most=3),
    ),
    scenario(
        "a branch is made, moved and deleted beside its commits",
        {
            "s1": [in_turn(makes("a"), commits_to_one("c", 2)), assigns("moved", "one", "side")],
            "s2": [in_turn(deletes("x"), makes("b"), commits_to_one("d", 1))],
        },
        checks={"references": references_are_right},
    ),
    scenario(
        "a branch whose maker dies",
        {
            "s1": [in_turn(makes("a"), commits_to_one("c", 1))],
            "s2": [in_turn(commits_to_one("d", 1), makes("b"), commits_to_one("e", 1))],
            "s3": [in_turn(deletes("x"), commits_to_one("f", 1))],
        },
        checks={"references": references_are_right, "made": made_branches_take_commits},
        faults=Faults(crash_before=0.03, crash_after=0.03, lost_reply=0.08, late=0.04, most=3),
        restart=lambda server: [commits_to_one(f"again {server.name} ", 1)],
    ),
]
