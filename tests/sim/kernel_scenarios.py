"""The kernel under the explorer: what actors do, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lochan.base.errors import LochanError
from lochan.base.ids import EMPTY_ID, InstanceId, ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName, ref_name
from lochan.codec.elements import pack_table
from lochan.codec.rows import Description
from lochan.kernel.build import Head
from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.lane import Lane
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Behaviour, Choices
from lochan.kernel.plan import ANY, Anything, CommitPlan, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Proposal, Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kernel.views import CommitView
from lochan.persist.cache import Caches
from lochan.testing.invariants import (
    all_moves,
    all_rows,
    check_chain,
    check_content,
    check_moves,
    check_operations,
    check_order,
    check_references,
    line_of,
)
from lochan.testing.sim import Faults, History, Scenario, Server, World
from tests.kernel.workbench import claim

MAIN = ref_name("main")
SIDE = ref_name("side")
NAMES = [ref_name(name) for name in ("main", "side", "one", "two")]

LOSSY = Faults(lost_reply=0.12, late=0.08, not_applied=0.05, most=3)


class Write:
    """Puts keys; carries its operation id, so that history can be held against it."""

    incarnation = None

    def __init__(
        self, operation: str, keys: Sequence[str], expected: bytes | Anything | None = ANY
    ) -> None:
        self.operation = operation
        element = None if operation.startswith("rm") else element_of(operation)
        self._operations = [Operation(table_key([key]), element, expected) for key in keys]

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        hidden = (("operation", (self.operation,)),)
        return [CommitPlan(self._operations, self.operation, hidden=hidden)]


def element_of(operation: str) -> bytes:
    return pack_table(1, ObjId(operation.encode().ljust(32, b".")[:32]), bytes(16))


def apply_commit(content: dict[bytes, bytes], view: CommitView) -> None:
    """What a commit of these scenarios did, from its message and own keys alone."""
    assert view.body is not None
    assert view.body.own is not None
    for key in view.body.own:
        if view.body.message.startswith("rm"):
            del content[key]
        else:
            content[key] = element_of(view.body.message)


class App:
    """What one server has in memory."""

    def __init__(self, server: Server) -> None:
        self.context = parts_of(server, server.world.prepared)
        self.names = ReferenceIndex(self.context)
        self.lane: Lane[list[Any]] = Lane()
        self.publisher = Publisher(self.context, MAIN)


def parts_of(server: Server, prepared: tuple[InstanceId, Description]) -> RepositoryContext:
    instance, description = prepared
    return RepositoryContext(
        server.store,
        instance,
        description,
        server.clock,
        server.random,
        server.waiting,
        tuning=Tuning(Caches(500_000)),
    )


def set_up(server: Server) -> tuple[InstanceId, Description]:
    """A repository with two branches and a commit or two on each."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    Publisher(context, MAIN).publish([Write("first", ["a", "b"])])
    head = ReferenceIndex(context).get(MAIN).row.pointer
    side = NewReferenceRow(SIDE, "BRANCH", ObjId(head))
    ReferenceIndex(context).create_many([side], Initiator("setup"))
    Publisher(context, SIDE).publish([Write("aside", ["s"])])
    return context.instance, context.description


def publish(publisher: Publisher, proposals: Sequence[Proposal]) -> list[object]:
    """Publishes and raises the refusal of a single proposal, as a caller would see it."""
    settled = publisher.publish(proposals)
    if len(settled) == 1 and isinstance(settled[0], LochanError):
        raise settled[0]
    return list(settled)


def commits(name: str, count: int, *, same_key: bool = False) -> Callable[[Server], None]:
    """An actor that commits to main, one commit after the other, as a server of its own would."""

    def act(server: Server) -> None:
        publisher = Publisher(server.app.context, MAIN)
        for number in range(count):
            operation = f"{name}{number}"
            keys = ["shared" if same_key else operation]
            server.attempt("commit", publish, publisher, [Write(operation, keys)])

    return act


def insists(name: str) -> Callable[[Server], None]:
    """Puts a key, and later puts it again, expecting that it was removed."""

    def act(server: Server) -> None:
        publisher = Publisher(server.app.context, MAIN)

        def begin(_: Publisher, proposals: Sequence[Proposal]) -> list[object]:
            # A refusal may need no store call at all; so the operation begins here.
            server.pause("begin")
            return publish(publisher, proposals)

        server.attempt("commit", begin, publisher, [Write(f"{name}0", ["k"])])
        server.attempt("commit", begin, publisher, [Write(f"{name}1", ["k"], None)])
        server.attempt("commit", begin, publisher, [Write(f"{name}2", ["other", "k"], None)])

    return act


def removes(name: str) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        publisher = Publisher(server.app.context, MAIN)
        server.attempt("commit", publish, publisher, [Write(f"rm{name}", ["k"])])

    return act


def both_at_once(server: Server) -> None:
    """Two proposals in one chain, the first of which may be refused after it was half planned."""
    publisher = Publisher(server.app.context, MAIN)
    for number in range(2):
        pair = [Twice(f"p{number}", "k"), Write(f"q{number}", [f"q{number}"])]
        server.attempt("pair", publish, publisher, pair)


class Twice:
    """Two commits, of which the second is refused if the key exists: all or none."""

    incarnation = None

    def __init__(self, operation: str, key: str) -> None:
        self._first = Write(f"{operation}a", [f"{operation}a"])
        self._second = Write(f"{operation}b", [key], None)

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        return [*self._first.plan(head), *self._second.plan(head)]


def commits_by_lane(name: str, count: int) -> Callable[[Server], None]:
    """An actor that waits in its server's lane with others."""

    def act(server: Server) -> None:
        for number in range(count):
            operation = f"{name}{number}"
            server.attempt("commit", wait_in_lane, server, Write(operation, [operation]))

    return act


def wait_in_lane(server: Server, proposal: Proposal) -> object:
    # Another actor may publish for this one; so it begins here, before it can.
    server.pause("offer")
    lane, waiter = server.app.lane, [proposal, None]
    lane.offer(waiter)
    while waiter[1] is None:
        batch = lane.take()
        if not batch:
            server.wait_until(lambda: waiter[1] is not None or lane.may_take)
            continue
        answers: list[Any]
        try:
            answers = list(server.app.publisher.publish([one[0] for one in batch]))
        except LochanError as error:
            answers = [error] * len(batch)
        for one, answer in zip(lane.settle(), answers, strict=True):
            one[1] = answer
    if isinstance(waiter[1], LochanError):
        raise waiter[1]
    return waiter[1]


def merges(server: Server) -> None:
    """Merges side into main."""

    def merge() -> object:
        app = server.app
        source = app.context.views.load(ObjId(app.names.get(SIDE).row.pointer))
        hidden = (("operation", ("merge",)),)
        choices = Choices(Behaviour.FORCE)
        proposal = MergeProposal(app.context, source, "aside", choices, hidden=hidden)
        return publish(Publisher(app.context, MAIN), [proposal])

    server.attempt("merge", merge)


def assigns(name: RefName) -> Callable[[Server], None]:
    """Points a branch at the other branch's head, whatever it points at."""

    def assign(server: Server) -> object:
        names = server.app.names
        pointer = ObjId(names.get(SIDE).row.pointer)
        old = ObjId(names.get(name).row.pointer)
        return names.assign(name, old, pointer, Initiator(server.name))

    def act(server: Server) -> None:
        server.attempt("assign", assign, server)

    return act


def creates(*names: RefName) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        wanted = [NewReferenceRow(name, "BRANCH", EMPTY_ID) for name in names]
        server.attempt("create", server.app.names.create_many, wanted, Initiator(server.name))

    return act


def deletes(name: RefName) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        found = server.attempt("find", server.app.names.find, name)
        if found is not None:
            pointer, who = found.row.pointer, Initiator("d")
            server.attempt("delete", server.app.names.delete, name, pointer, who)

    return act


def looks(name: RefName) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        server.attempt("find", server.app.names.find, name)

    return act


def reads(name: RefName) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        server.attempt("find", server.app.names.find, name)
        server.attempt("page", server.app.names.page, "", None, 10)

    return act


def in_turn(*acts: Callable[[Server], None]) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for one in acts:
            one(server)

    return act


def claims(key: str, times: int) -> Callable[[Server], None]:
    """A client that sends one request with an idempotency key again and again."""

    def send(server: Server) -> object:
        context = server.app.context
        claimed = claim(context, "somebody", key, key.encode(), MAIN)
        proposal = ClaimedProposal(context, Write(claimed.operation.hex(), ["claimed"]), claimed)
        answers = publish(Publisher(context, MAIN), [proposal])
        assert proposal.done is not None or isinstance(answers[0], Published)
        return claimed.operation.hex()

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("claimed", send, server)

    return act


def fresh(world: World) -> RepositoryContext:
    """The repository as a new server reads it afterwards."""
    return parts_of(world.new_server("checker"), world.prepared)


def recovered(world: World) -> RepositoryContext:
    """The same after that server has read every name."""
    context = fresh(world)
    names = ReferenceIndex(context)
    for name in NAMES:
        names.find(name)
    return context


def operation_of(event: Any) -> str:
    return (
        event.arguments[1].operation
        if event.operation == "commit" and not isinstance(event.arguments[1], list)
        else event.arguments[1][0].operation
    )


def history_is_right(world: World, history: History) -> None:
    """K1 to K5 and K7 on main and side."""
    context = fresh(world)
    rows = all_rows(context)
    events = history.of("commit")
    acknowledged = [operation_of(event) for event in events if event.acknowledged]
    refused = [
        operation_of(event) for event in events if not event.acknowledged and not event.uncertain
    ]
    if MAIN in rows:
        check_operations(context, rows[MAIN], acknowledged, refused)
        done = [event for event in events if event.acknowledged]
        pairs = [
            (operation_of(one), operation_of(other))
            for one in done
            for other in done
            if one.before(other)
        ]
        check_order(context, rows[MAIN], pairs)
    for row in rows.values():
        check_chain(context, ObjId(row.pointer))
        if row.kind == "BRANCH":
            check_content(context, ObjId(row.pointer), apply_commit)


def refusals_are_true(world: World, history: History) -> None:
    """K6: who was refused because a key exists met a moment at which it did."""
    context = fresh(world)
    line = line_of(context, ObjId(all_rows(context)[MAIN].pointer))
    order = [view.body.message for view in line if view.body is not None]
    present = [False]
    for view in line:
        assert view.body is not None
        touched = table_key(["k"]) in (view.body.own or ())
        present.append(not view.body.message.startswith("rm") if touched else present[-1])
    events = {operation_of(event): event for event in history.of("commit")}
    for event in history.of("commit"):
        if event.outcome != "keys_conflict" or operation_of(event).startswith("rm"):
            continue
        first = max(
            (at + 1 for at, one in enumerate(order) if _ended(events, one, event)), default=0
        )
        last = max(
            (at + 1 for at, one in enumerate(order) if _began(events, one, event)), default=0
        )
        assert any(present[first : last + 1]), f"K6: {operation_of(event)} was refused for nothing"


def _ended(events: dict[str, Any], operation: str, than: Any) -> bool:
    return operation not in events or events[operation].before(than)


def _began(events: dict[str, Any], operation: str, than: Any) -> bool:
    return operation not in events or not than.before(events[operation])


def pairs_are_whole(world: World, history: History) -> None:
    """A proposal of two commits is in history with both or with none."""
    context = fresh(world)
    line = line_of(context, ObjId(all_rows(context)[MAIN].pointer))
    messages = {view.body.message for view in line if view.body is not None}
    for number in range(2):
        assert (f"p{number}a" in messages) == (f"p{number}b" in messages), (
            "half a proposal is there"
        )


def claims_are_done_once(world: World, history: History) -> None:
    """K3 for clients: however often and wherever sent, there is one commit."""
    context = fresh(world)
    results = [event.result for event in history.acknowledged("claimed")]
    check_operations(context, all_rows(context)[MAIN], [str(one) for one in results], [])


def references_are_right(world: World, history: History) -> None:
    """R1 to R4: what is listed is live, after a reader has finished what was half done."""
    context = recovered(world)
    check_references(context)
    rows = all_rows(context)
    for event in history.acknowledged("create"):
        wanted: Any = event.arguments[0]
        for new in wanted:
            assert new.name in rows, "R4: a created reference has a row for ever"
    for event in history.of("assign"):
        if not event.acknowledged and not event.uncertain:
            done = [move for move in all_moves(context, rows[MAIN]) if move.who == event.server]
            assert not done, "K5: a refused move took effect"
    for event in history.acknowledged("create", "delete", "assign"):
        results = event.result if isinstance(event.result, list) else [event.result]
        for row in results:
            check_moves(context, ref_name(row.name), [row.operation])


CHECKS = {"history": history_is_right, "references": references_are_right}


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("checks", CHECKS)
    return Scenario(name=name, servers=servers, setup=set_up, open=App, **more)


SCENARIOS = [
    scenario(
        "single commits on three servers",
        {f"s{n}": [commits(f"c{n}_", 2)] for n in range(3)},
    ),
    scenario(
        "single commits on one key, servers that die",
        {f"s{n}": [commits(f"c{n}_", 2, same_key=True)] for n in range(3)},
        faults=Faults(lost_reply=0.05, late=0.05, crash_before=0.05, crash_after=0.05, most=3),
        restart=lambda server: [commits(f"again_{server.name}_", 1)],
    ),
    scenario(
        "expectations on one key",
        {"s1": [insists("a")], "s2": [in_turn(removes("b"), removes("c"))], "s3": [removes("d")]},
        checks={**CHECKS, "refusals": refusals_are_true},
        faults=Faults(lost_reply=0.08, late=0.05, not_applied=0.05, most=2),
    ),
    scenario(
        "proposals of several commits",
        {"s1": [both_at_once], "s2": [in_turn(removes("b"), removes("c"))], "s3": [insists("a")]},
        checks={**CHECKS, "pairs": pairs_are_whole},
    ),
    scenario(
        "chained commits on two servers",
        {
            "s1": [commits_by_lane("a", 2), commits_by_lane("b", 2)],
            "s2": [commits_by_lane("c", 2), commits_by_lane("d", 2)],
        },
    ),
    scenario(
        "held rows on two servers",
        {"s1": [commits("a", 3)], "s2": [commits("b", 3)], "s3": [commits("c", 2)]},
        row_locks=True,
    ),
    scenario(
        "merge beside commits",
        {
            "s1": [in_turn(merges, commits("a", 1))],
            "s2": [commits("b", 2)],
            "s3": [commits("c", 2)],
        },
    ),
    scenario(
        "assign during unknown",
        {
            "s1": [commits("a", 2)],
            "s2": [assigns(MAIN), commits("b", 1)],
            "s3": [assigns(MAIN)],
        },
        faults=Faults(lost_reply=0.25, late=0.15, not_applied=0.1, most=3),
    ),
    scenario(
        "delete and create again",
        {name: [in_turn(creates(NAMES[2]), deletes(NAMES[2]))] for name in ("s1", "s2")}
        | {"s3": [reads(NAMES[2])]},
    ),
    scenario(
        "bulk create",
        {
            "s1": [in_turn(creates(NAMES[2], NAMES[3]), reads(NAMES[3]))],
            "s2": [in_turn(creates(NAMES[3]), deletes(NAMES[3]))],
            "s3": [in_turn(creates(NAMES[3], NAMES[2]), reads(NAMES[2]))],
        },
    ),
    scenario(
        "idempotent retries on two servers",
        {"s1": [claims("k", 2)], "s2": [claims("k", 2)], "s3": [commits("c", 2)]},
        checks={**CHECKS, "claims": claims_are_done_once},
        faults=Faults(lost_reply=0.2, late=0.1, not_applied=0.05, most=3),
    ),
]
