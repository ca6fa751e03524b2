"""Delivery at least once under the explorer: writers and workers on servers that share a store.

Every event is checked when it is handed over: its change is in the store by then, and the server
that delivers has the lease. At the end a fresh server delivers what is left; then nothing may be
missing, and the first delivery of each event is in the order of its reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from lochan.base.names import REFS_NAME, RefName
from lochan.catalog.types import ContentTypes
from lochan.codec.cursors import ReplayPosition
from lochan.events.builder import EventBuilder
from lochan.events.durable import DurableDelivery
from lochan.events.filters import EventFilter
from lochan.events.hub import AnyDelivery, EventHub
from lochan.events.replay import position_of, replay
from lochan.events.subscribers import DeliveryOptions, EventListener
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model import events
from lochan.model.events import Event
from lochan.persist.cache import Caches
from lochan.persist.cursors import SubscriberRows
from lochan.testing.invariants import all_rows
from lochan.testing.sim import Faults, History, Scenario, Server, World
from tests.sim.event_scenarios import (
    CRASHES,
    LOST_REPLIES,
    TYPES,
    Act,
    assigns,
    commits,
    creates,
    deletes,
    finds,
    fresh,
    happened,
)
from tests.sim.kernel_scenarios import MAIN, set_up

CURSOR = "orders"
# All sleeps of a worker are so long that they move the clocks of all servers.
OPTIONS = DeliveryOptions(
    cursor=CURSOR, poll_ms=2_000, sleep_first_ms=4_000.0, sleep_max_ms=8_000.0, call_ms_max=10_000
)
# A takeover needs fifteen seconds, of which a pause is five.
DRAIN_PAUSES = 8


class Handed(msgspec.Struct, frozen=True):
    """An event that was handed over: by which server, under which fence."""

    server: str
    fence: int
    event: Event


class Prepared(msgspec.Struct, frozen=True):
    """What the set-up leaves: the repository, and where each name was when the cursor began."""

    instance: Any
    description: Any
    positions: dict[str, ReplayPosition]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.instance, self.description))


class Watched(EventListener):
    """Checks an event when it is handed over, and keeps it outside of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.lease: Any = None

    def on_event(self, event: Event) -> None:
        try:
            self._check(event)
        except AssertionError as wrong:
            # What a listener raises is a failed attempt.
            self._server.world.watched.append(wrong)

    def _check(self, event: Event) -> None:
        world = self._server.world
        found = SubscriberRows(world.store).fetch(CURSOR)
        assert found is not None
        assert found.row.owner == self.lease._owner, "delivered without the lease"
        world.watched.append(Handed(self._server.name, found.row.fence, event))
        if isinstance(event, events.GapFound):
            return
        made, moves = happened(world)
        shown, moved = counted_of([event])
        assert set(shown) <= made, "an event of a commit that is not there"
        assert set(moved) <= set(moves), "an event of a move that was not made"


class OneRepository:
    """The one repository of these scenarios."""

    def __init__(self, context: RepositoryContext) -> None:
        self._context = context

    @property
    def store(self) -> Store:
        return self._context.store

    def names(self) -> Sequence[str]:
        return ["default"]

    def open(self, name: str) -> RepositoryContext:
        return self._context


class DurableApp:
    """What one server has in memory: a hub with one durable subscription."""

    options = OPTIONS

    def __init__(self, server: Server, listener: EventListener | None = None) -> None:
        ports = Ports(server.clock, server.random, server.waiting)
        started: list[AnyDelivery] = []
        hub = EventHub(ports, server.new_lock, started.append, sent_by=server.name)
        prepared = server.world.prepared
        self.context = RepositoryContext(
            server.store,
            prepared.instance,
            prepared.description,
            server.clock,
            server.random,
            server.waiting,
            tuning=Tuning(Caches(500_000), observer=hub),
        )
        hub.source = OneRepository(self.context)
        watched = listener or Watched(server)
        hub.subscribe(watched, EventFilter(types=TYPES), self.options)
        (delivery,) = started
        assert isinstance(delivery, DurableDelivery)
        self.delivery = delivery
        if isinstance(watched, Watched):
            watched.lease = delivery._lease
        self.names = ReferenceIndex(self.context)
        self.publisher = Publisher(self.context, MAIN, self.names.find)

    def deliver(self) -> None:
        """The worker is an actor of its own."""


class ForgetfulApp(DurableApp):
    """Gives a cursor up after half an hour; the set-up is an hour older than the run."""

    options = msgspec.structs.replace(OPTIONS, age_s_max=1_800)


def set_up_durably(server: Server) -> Prepared:
    """The repository of the other scenarios, with a cursor at the present."""
    instance, description = set_up(server)
    server.world.prepared = Prepared(instance, description, {})
    app = DurableApp(server, EventListener())
    rows = all_rows(app.context)
    positions = {name: position_of(row) for name, row in rows.items() if name != REFS_NAME}
    return Prepared(instance, description, positions)


def works(pauses: int) -> Act:
    """The worker of a server, up to so many pauses."""

    def act(server: Server) -> None:
        delivery = server.app.delivery
        for _ in range(pauses):
            while delivery.turn():
                pass
            server.waiting.sleep_ms(max(1_000.0, delivery.pause_ms() + 1.0))

    return act


def stops(server: Server) -> None:
    """A worker that is stopped, and gives its lease back."""
    works(1)(server)
    delivery = server.app.delivery
    delivery.stop()
    while not delivery.is_over:
        delivery.turn()
    delivery.finish()


def counted_of(found: Sequence[Event]) -> tuple[Counter[str], Counter[tuple[str, str, int, int]]]:
    made: Counter[str] = Counter()
    moves: Counter[tuple[str, str, int, int]] = Counter()
    kinds = {"REFERENCE_CREATED": "create", "REFERENCE_DELETED": "delete"}
    for event in found:
        if isinstance(event, events.CommitMade):
            made[event.hash_after] += 1
        elif event.type in events.REFERENCE_TYPES:
            kind = kinds.get(event.type) or event.cause  # type: ignore[attr-defined]
            moves[kind, event.reference.name, event.reference.incarnation, event.version] += 1
        else:
            raise AssertionError(f"{event.type} where nothing is lost")
    return made, moves


def drain(world: World) -> None:
    """Delivers what is left, on a fresh server, after everything else has ended."""
    if world.watched and world.watched[-1] is None:
        return
    now_us = max(server.clock.now_us() for server in world.servers)
    last = Server(world, "last", now_us)
    app = type(world.servers[0].app)(last)
    for _ in range(DRAIN_PAUSES):
        while app.delivery.turn():
            pass
        last.clock.advance_us(int(app.delivery.pause_ms() * 1_000) + 1_000)
    wrong = [one for one in world.watched if isinstance(one, AssertionError)]
    if wrong:
        raise wrong[0]
    assert app.delivery._calls.last_error == "", app.delivery._calls.last_error
    world.watched.append(None)


def handed(world: World) -> list[Handed]:
    drain(world)
    return [one for one in world.watched if one is not None]


def check_complete(world: World, _: History) -> None:
    """What happened was delivered, once at least, and nothing else."""
    given = handed(world)
    made, moves = happened(world)
    shown, moved = counted_of([one.event for one in given])
    assert set(shown) == made, "the event of a commit is missing"
    known = world.prepared.positions
    wanted = {
        key
        for key in moves
        if key[1] not in known
        or (key[2], key[3]) > (known[key[1]].incarnation, known[key[1]].version)
    }
    assert set(moved) == wanted, "the event of a move is missing"


def check_order(world: World, _: History) -> None:
    """First deliveries are in the order of their reference, and so is what one owner delivers."""
    orders = {name: order_of(world, name) for name in names_of(world)}
    first: dict[str, list[int]] = {}
    by_owner: dict[tuple[int, str], list[int]] = {}
    seen: set[str] = set()
    for one in handed(world):
        name = one.event.reference.name
        at = orders[name].index(one.event.id)
        if one.event.id not in seen:
            seen.add(one.event.id)
            first.setdefault(name, []).append(at)
        by_owner.setdefault((one.fence, name), []).append(at)
    for places in first.values():
        assert places == sorted(places), "first deliveries out of order"
    for places in by_owner.values():
        assert is_in_order(places), "one owner has left something out or delivers out of order"


def check_gaps(world: World, _: History) -> None:
    """What is missing is named by a gap, up to where the gap ends; the rest is in order."""
    given = handed(world)
    gaps = [one.event for one in given if isinstance(one.event, events.GapFound)]
    delivered = {one.event.id for one in given}
    for name in world.prepared.positions:
        order = events_of_name(world, name)
        ends = [-1]
        for gap in gaps:
            for missed in gap.missed:
                if missed.name == name:
                    ends.append(last_index(order, missed.hash_after))
        missing = [at for at, event in enumerate(order) if event.id not in delivered]
        assert max(missing, default=-1) <= max(ends), "what is missing is not in a gap"
        ids = [event.id for event in order]
        first = [
            ids.index(each)
            for each in dict.fromkeys(one.event.id for one in given if one.event.id in ids)
        ]
        assert first == sorted(first), "first deliveries out of order"
    assert len({gap.id for gap in gaps}) <= 1, "one age has several gaps"


def last_index(order: Sequence[Event], pointer: str) -> int:
    """Returns the last event after which a reference is at a place."""
    return max(
        [at for at, event in enumerate(order) if getattr(event, "hash_after", "") == pointer],
        default=-1,
    )


def is_in_order(places: Sequence[int]) -> bool:
    """Whether an owner goes on, or back to repeat without leaving anything out."""
    return all(later <= earlier + 1 for earlier, later in pairwise(places))


def names_of(world: World) -> set[str]:
    given = {one.event.reference.name for one in handed(world)}
    return given | set(world.prepared.positions)


def order_of(world: World, name: str) -> list[str]:
    """Returns the ids of the events of a name in the order of its history."""
    return [event.id for event in events_of_name(world, name)]


def events_of_name(world: World, name: str) -> list[Event]:
    context = fresh(world)
    found = context.references.fetch(name)
    after = world.prepared.positions.get(name) or ReplayPosition(1, 0, b"")
    builder = EventBuilder(ContentTypes(), "check")
    row = None if found is None else found.row
    return [
        event
        for one in replay(context, RefName(name), after, row)
        for event in builder.build(one.change, frozenset(TYPES), lambda _: True)
    ]


CHECKS = {"complete": check_complete, "order": check_order}


def scenario(
    name: str, servers: dict[str, list[Act]], faults: Faults = LOST_REPLIES, *, crash: bool = False
) -> Scenario:
    return Scenario(
        name=name,
        servers=servers,
        checks=CHECKS,
        setup=set_up_durably,
        open=DurableApp,
        restart=(lambda _: [works(3)]) if crash else None,
        faults=CRASHES if crash else faults,
    )


GAPS = Scenario(
    name="durable: a cursor that is too old",
    servers={"A": [commits("a1", "a2", "a3")], "B": [works(4)], "C": [assigns, works(9)]},
    checks={"gaps": check_gaps},
    setup=set_up_durably,
    open=ForgetfulApp,
    restart=lambda _: [works(3)],
    faults=CRASHES,
)

SCENARIOS = [
    GAPS,
    scenario(
        "durable: commits of two servers",
        {"A": [commits("a1", "a2"), works(3)], "B": [commits("b1"), works(3)]},
    ),
    scenario(
        "durable: commits, moves and a crash",
        {"A": [commits("a1", "a2"), works(3)], "B": [assigns, works(5)]},
        crash=True,
    ),
    scenario(
        "durable: created, deleted, created",
        {"A": [creates, deletes, creates], "B": [works(4)], "C": [deletes, finds]},
    ),
    scenario(
        "durable: half-done steps and crashes",
        {"A": [creates, deletes], "B": [works(4)], "C": [creates, works(5)]},
        crash=True,
    ),
    scenario(
        "durable: takeover",
        {"A": [commits("a1", "a2", "a3")], "B": [works(3)], "C": [works(9)]},
        crash=True,
    ),
    scenario(
        "durable: the lease is given back",
        {"A": [commits("a1", "a2"), stops], "B": [works(6)], "C": [assigns]},
    ),
]
