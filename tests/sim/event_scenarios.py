"""Events under the explorer: writers and subscribers on several servers, crashes, lost replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lochan.base.ids import ObjId
from lochan.base.names import REFS_NAME, ref_name
from lochan.codec.rows import Move
from lochan.events.changes import Change
from lochan.events.filters import EventFilter
from lochan.events.hub import AnyDelivery, EventHub
from lochan.events.subscribers import EventListener
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports
from lochan.model import events
from lochan.model.events import Event
from lochan.persist.cache import Caches
from lochan.testing.invariants import all_rows, line_of
from lochan.testing.sim import Faults, History, Scenario, Server, World
from tests.sim.kernel_scenarios import MAIN, Write, parts_of, publish, set_up

NEW = ref_name("new")
# The contents of these scenarios are made up, so that their events cannot be built.
TYPES = tuple(sorted(events.REFERENCE_TYPES | events.COMMITTING_TYPES))
MAKER = Initiator("maker", ("r",))
LOST_REPLIES = Faults(lost_reply=0.12, late=0.08, not_applied=0.05, most=3)
CRASHES = Faults(lost_reply=0.1, crash_before=0.03, crash_after=0.03, most=3)


class Kept(EventListener):
    """Keeps events outside of the server, which may crash."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def on_event(self, event: Event) -> None:
        self._server.world.watched.append((self._server.name, event))


class EventApp:
    """What one server has in memory: a hub with one subscription, whose order is noted."""

    def __init__(self, server: Server) -> None:
        ports = Ports(server.clock, server.random, server.waiting)
        self._deliveries: list[AnyDelivery] = []
        self._delivering = server.new_lock()
        hub = EventHub(ports, server.new_lock, self._deliveries.append, sent_by=server.name)
        delivery = hub.subscribe(Kept(server), EventFilter(types=TYPES))
        self.positions: dict[tuple[bytes, str], list[tuple[int, int]]] = {}
        offer = delivery.offer

        def noted(change: Change) -> None:
            self.positions.setdefault(change.place, []).append(change.position)
            offer(change)

        delivery.offer = noted  # type: ignore[method-assign]
        instance, description = server.world.prepared
        self.context = RepositoryContext(
            server.store,
            instance,
            description,
            server.clock,
            server.random,
            server.waiting,
            tuning=Tuning(Caches(500_000), observer=hub),
        )
        self.names = ReferenceIndex(self.context)
        self.publisher = Publisher(self.context, MAIN, self.names.find)

    def deliver(self) -> None:
        """Delivers what is queued; one worker at a time."""
        with self._delivering:
            while self._deliveries[0].turn():
                pass


Act = Callable[[Server], None]


def commits(*names: str) -> Act:
    def act(server: Server) -> None:
        app = server.app
        for name in names:
            server.attempt("commit", publish, app.publisher, [Write(name, ["k"])])
            app.deliver()

    return act


def conflicting(name: str) -> Act:
    """Commits under a condition that only one of several writers can meet."""

    def act(server: Server) -> None:
        write = Write(name, ["once"], expected=None)
        server.attempt("commit", publish, server.app.publisher, [write])
        server.app.deliver()

    return act


def assigns(server: Server) -> None:
    """Points `main` at the head of its parent, and elsewhere again."""
    names = server.app.names

    def act() -> object:
        row = names.get(MAIN).row
        parent = server.app.context.views.load(ObjId(row.pointer)).parent
        return names.assign(MAIN, ObjId(row.pointer), parent, MAKER)

    server.attempt("assign", act)
    server.app.deliver()


def creates(server: Server) -> None:
    names = server.app.names

    def act() -> object:
        head = names.get(MAIN).row.pointer
        return names.create_many([NewReferenceRow(NEW, "BRANCH", ObjId(head))], MAKER)

    server.attempt("create", act)
    server.app.deliver()


def deletes(server: Server) -> None:
    names = server.app.names

    def act() -> object:
        return names.delete(NEW, ObjId(names.get(NEW).row.pointer), MAKER)

    server.attempt("delete", act)
    server.app.deliver()


def finds(server: Server) -> None:
    """Finishes what others have left half done."""
    for _ in range(2):
        server.attempt("find", server.app.names.find, NEW)
    server.app.deliver()


def happened(world: World) -> tuple[set[str], Counter[tuple[str, str, int, int]]]:
    """Returns what the store proves: commits after the setup, and moves by their kinds."""
    context = fresh(world)
    heads: set[bytes] = set()
    moves: dict[tuple[str, int, int], str] = {}
    for name, row in all_rows(context).items():
        if name == REFS_NAME:
            continue
        heads.add(row.pointer)
        for incarnation, move in context.moves.fetch_before(name, 1 << 62, 0, 1_000):
            assert isinstance(move, Move)
            moves[name, incarnation, move.version] = changing_kind(move)
            heads |= {move.old, move.new}
        for move in row.moves:
            moves[name, row.incarnation, move.version] = changing_kind(move)
            heads |= {move.old, move.new}
    made = {
        view.obj_id.hex()
        for head in heads
        if head
        for view in line_of(context, ObjId(head))
        if view.body is not None and view.body.message not in ("first", "aside")
    }
    return made, Counter((kind, *place) for place, kind in moves.items() if kind)


def changing_kind(move: Move) -> str:
    """Returns the kind of a move; nothing for one to where the reference was."""
    return "" if move.kind == "assign" and move.old == move.new else move.kind


def fresh(world: World) -> RepositoryContext:
    server = Server(world, "check", world.servers[0].clock.now_us())
    context = parts_of(server, world.prepared)
    context.store = world.store
    return context


def reported(world: World) -> tuple[Counter[str], Counter[tuple[str, str, int, int]]]:
    made: Counter[str] = Counter()
    moves: Counter[tuple[str, str, int, int]] = Counter()
    kinds = {"REFERENCE_CREATED": "create", "REFERENCE_DELETED": "delete"}
    for _, event in world.watched:
        if isinstance(event, events.CommitMade):
            made[event.hash_after] += 1
        else:
            kind = kinds.get(event.type) or event.cause
            moves[kind, event.reference.name, event.reference.incarnation, event.version] += 1
    return made, moves


def check_true(world: World, _: History) -> None:
    """No event for what did not happen, and at most one for what did."""
    made, moves = happened(world)
    shown, moved = reported(world)
    assert set(shown) <= made, "an event of a commit that was not published"
    assert set(moved) <= set(moves), "an event of a move that was not made"
    assert max(shown.values(), default=0) <= 1
    assert max([count for key, count in moved.items() if key[0] != "create"], default=0) <= 1


def check_complete(world: World, _: History) -> None:
    """Without crashes nothing is missing, half-done steps included."""
    made, moves = happened(world)
    shown, moved = reported(world)
    assert set(shown) == made, "the event of a commit is missing"
    wanted = {key for key in moves if key[1] != "side" and key[:4] != ("create", "main", 1, 1)}
    unfinished = {key for key in wanted if is_unfinished(world, key)}
    assert wanted - unfinished <= set(moved), "the event of a move is missing"


def is_unfinished(world: World, key: tuple[str, str, int, int]) -> bool:
    """Returns whether a deletion is decided, but the name is still listed: no event yet."""
    kind, name, incarnation, _ = key
    listed = ReferenceIndex(fresh(world)).incarnations([ref_name(name)])
    return kind == "delete" and listed.get(ref_name(name)) == incarnation


def check_order(world: World, _: History) -> None:
    """The changes of a reference are queued in their order, on each server."""
    for server in world.servers:
        if server.app is not None:
            for positions in server.app.positions.values():
                assert positions == sorted(positions), "changes out of order"


TRUE = {"true": check_true, "order": check_order}
WHOLE = {**TRUE, "complete": check_complete}


def scenario(name: str, servers: dict[str, list[Act]], *, crash: bool = False) -> Scenario:
    return Scenario(
        name=name,
        servers=servers,
        checks=TRUE if crash else WHOLE,
        setup=set_up,
        open=EventApp,
        restart=(lambda _: [finds]) if crash else None,
        faults=CRASHES if crash else LOST_REPLIES,
    )


SCENARIOS = [
    scenario("events of commits", {"A": [commits("a1", "a2")], "B": [commits("b1", "b2")]}),
    scenario("events and conflicts", {"A": [conflicting("a")], "B": [conflicting("b")]}),
    scenario("commits and moves of one server", {"A": [commits("a1", "a2"), assigns, assigns]}),
    scenario("events of half-done steps", {"A": [creates, deletes], "B": [finds, finds]}),
    scenario("created again", {"A": [creates, deletes, creates], "B": [deletes]}),
    scenario("events and crashes", {"A": [creates, commits("a1")], "B": [deletes]}, crash=True),
    scenario("crashes of commits", {"A": [commits("a1", "a2")], "B": [assigns]}, crash=True),
]
