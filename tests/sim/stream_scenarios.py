"""Followers of the event stream under the explorer: writers and feeds on several servers.

A client is what stays when a server ends: what it has got, with the token of each change. It goes
on from its last token, on whatever server its next session is. Sessions of one client never
overlap: one that finds another open ends at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from lochan.base.errors import LochanError
from lochan.base.names import RefName
from lochan.base.ports import NewLock
from lochan.catalog.types import ContentTypes
from lochan.codec.cursors import ReplayPosition
from lochan.codec.rows import Description
from lochan.events.builder import EventBuilder
from lochan.events.changes import Change
from lochan.events.detector import place_of_index
from lochan.events.feeds import EventFeeds, Feed
from lochan.events.past_changes import PastChanges
from lochan.events.replay import position_of
from lochan.events.stream_tokens import Delivered, StreamScope, StreamTokens
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.name_index import NameIndex
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.model import events
from lochan.model.events import Event
from lochan.persist.cache import Caches
from lochan.testing.sim import Faults, History, Scenario, Server, World
from tests.sim import kernel_scenarios
from tests.sim.event_scenarios import (
    LOST_REPLIES,
    Act,
    assigns,
    commits,
    creates,
    deletes,
    finds,
    fresh,
    happened,
)
from tests.sim.kernel_scenarios import MAIN

EVERY = "*"
TRIES_MAX = 60
CRASHES = Faults(lost_reply=0.08, crash_before=0.03, crash_after=0.03, most=3)
# The contents of these scenarios are made up, so that their events cannot be built.
TYPES = events.REFERENCE_TYPES | events.COMMITTING_TYPES


class Got(msgspec.Struct, frozen=True):
    """What a client has got of one change, and where it goes on."""

    client: str
    events: tuple[Event, ...]
    position: tuple[str, ReplayPosition]
    token: str


class Session(msgspec.Struct, frozen=True):
    """The begin or the end of a connection."""

    client: str
    server: str
    is_open: bool


class ReferenceBuilder(EventBuilder):
    """Makes the events of references and commits only."""

    def build(self, change: Change, wanted: frozenset[str], *more: object) -> Iterator[Event]:
        return super().build(change, wanted & TYPES, *more)  # type: ignore[arg-type]


class StreamApp:
    """What one server has in memory: its feeds."""

    def __init__(self, server: Server) -> None:
        instance, description = server.world.prepared
        builder = ReferenceBuilder(ContentTypes(), server.name)
        # Every turn reads everything: what wakes a feed is a hint, and another server has none.
        self.feeds = EventFeeds(server.clock, server.new_lock, builder, lambda _: b"", poll_ms=0)
        self.context = RepositoryContext(
            server.store,
            instance,
            description,
            server.clock,
            server.random,
            server.waiting,
            tuning=Tuning(Caches(500_000), observer=self.feeds),
        )
        self.names = ReferenceIndex(self.context)
        self.publisher = Publisher(self.context, MAIN, self.names.find)

    def deliver(self) -> None:
        """Reads what is new, as the thread of a server does."""
        try:
            self.feeds.turn()
        except LochanError:
            # It is read at the next turn.
            return


class Prepared(msgspec.Struct, frozen=True):
    """A repository, and the tokens of clients that begin before everything else."""

    instance: bytes
    description: Description
    first: dict[str, Delivered]

    def __iter__(self) -> Iterator[object]:
        """Makes it look like what other scenarios prepare."""
        return iter((self.instance, self.description))


def set_up(server: Server) -> Prepared:
    instance, description = kernel_scenarios.set_up(server)
    context = kernel_scenarios.parts_of(server, (instance, description))
    names = [name for name, _ in NameIndex(context).page(b"f", b"g", 100)]
    positions = {}
    for name in names:
        found = context.references.fetch(name)
        assert found is not None
        positions[name] = position_of(found.row)
    head = NameIndex(context).head()
    every = Delivered(place_of_index(head), positions)
    single = Delivered(every.index, {MAIN: positions[MAIN]})
    return Prepared(instance, description, {EVERY: every, MAIN: single})


def follows(client: str, scope: str, sessions: int, turns: int = 2) -> Act:
    """Connects again and again, and takes what there is; `turns` is how long it stays."""

    def act(server: Server) -> None:
        left = sessions
        for _ in range(TRIES_MAX):
            if not is_open(server.world, client):
                server.attempt("follow", session, server, client, scope, turns)
                left -= 1
            if not left:
                return
            # Others may have their session now.
            server.attempt("wait", server.app.context.references.fetch, MAIN)

    return act


def is_open(world: World, client: str) -> bool:
    """Returns whether a session of a client goes on, on a server that lives."""
    sessions = [one for one in world.watched if isinstance(one, Session) and one.client == client]
    return bool(sessions) and sessions[-1].is_open


def session(server: Server, client: str, scope: str, turns: int) -> None:
    world, app = server.world, server.app
    world.watched.append(Session(client, server.name, is_open=True))
    try:
        feed = app.feeds.attend(app.context, StreamScope(scope))
        try:
            take(server, feed, client, scope, turns)
        finally:
            app.feeds.leave(feed)
    finally:
        world.watched.append(Session(client, server.name, is_open=False))


def take(server: Server, feed: Feed, client: str, scope: str, turns: int) -> None:
    app, world = server.app, server.world
    tokens = tokens_of(world, scope)
    past = PastChanges(feed, tokens.read(last_token(world, client, scope)))
    for one in past:
        got(server, client, tokens, one.name, one.change, one.after)
    number = past.number
    for _ in range(turns):
        changes = feed.changes(number)
        if changes is None:
            return
        for change in changes[:1]:
            # The rest is taken later, by a session that may be on another server.
            got(server, client, tokens, change.name, change.change, change.after)
            number += 1
        app.deliver()


def got(
    server: Server,
    client: str,
    tokens: StreamTokens,
    name: RefName,
    change: Change,
    after: Delivered,
) -> None:
    built = tuple(server.app.feeds.builder.build(change, events.CHANGE_TYPES, lambda _: True))
    position = (str(name), after.position(name))
    server.world.watched.append(Got(client, built, position, tokens.make(after)))


def tokens_of(world: World, scope: str) -> StreamTokens:
    return StreamTokens(world.prepared.description.token_key, StreamScope(scope))


def last_token(world: World, client: str, scope: str) -> str:
    for one in reversed(world.watched):
        if isinstance(one, Got) and one.client == client:
            return one.token
    return tokens_of(world, scope).make(world.prepared.first[scope])


def stays(scope: str) -> Act:
    """Keeps a feed, so that the sessions of others find one that has not read everything."""

    def act(server: Server) -> None:
        server.attempt("stay", server.app.feeds.attend, server.app.context, StreamScope(scope))

    return act


def reads(turns: int) -> Act:
    """Reads feeds, as the thread of a server does."""

    def act(server: Server) -> None:
        for _ in range(turns):
            server.app.deliver()

    return act


def received(world: World, client: str) -> list[Got]:
    return [one for one in world.watched if isinstance(one, Got) and one.client == client]


def clients(world: World) -> dict[str, str]:
    """Returns the clients and their scopes, by their names: `every-1` or `main-1`."""
    found = {one.client for one in world.watched if isinstance(one, Session)}
    return {name: EVERY if name.startswith("every") else MAIN for name in found}


def check_order(world: World, _: History) -> None:
    """Nothing comes twice, and the changes of a reference come in their order."""
    for client in clients(world):
        made = received(world, client)
        ids = Counter(event.id for one in made for event in one.events)
        assert max(ids.values(), default=0) <= 1, f"{client} got an event twice"
        by_name: dict[str, list[ReplayPosition]] = {}
        for one in made:
            by_name.setdefault(one.position[0], []).append(one.position[1])
        for positions in by_name.values():
            for earlier, later in pairwise(positions):
                assert (earlier.incarnation, earlier.version) <= (later.incarnation, later.version)


def check_complete(world: World, _: History) -> None:
    """With what comes after its last token, each client has everything, and nothing else."""
    commits_made, moves_made = happened(world)
    for client, scope in clients(world).items():
        shown: list[Event] = [one for each in received(world, client) for one in each.events]
        shown += rest_of(world, client, scope)
        ids = Counter(event.id for event in shown)
        assert max(ids.values(), default=0) <= 1, f"{client} gets an event twice"
        commits_of = {one.hash_after for one in shown if isinstance(one, events.CommitMade)}
        # All commits of these scenarios are on `main`.
        assert commits_of == commits_made, f"a commit is missing or wrong for {client}"
        moves = {
            (one.reference.name, one.reference.incarnation, one.version)
            for one in shown
            if one.type in events.REFERENCE_TYPES
        }
        wanted = {(name, incarnation, version) for _, name, incarnation, version in moves_made}
        wanted = {one for one in wanted if scope in (EVERY, one[0])} - before(world)
        assert moves == wanted, f"a move is missing or wrong for {client}"


def before(world: World) -> set[tuple[str, int, int]]:
    """Returns the moves of the set-up."""
    positions = world.prepared.first[EVERY].positions
    return {(str(name), at.incarnation, at.version) for name, at in positions.items()}


def rest_of(world: World, client: str, scope: str) -> list[Event]:
    """Returns what a client gets that connects when everything has ended."""
    context: RepositoryContext = fresh(world)
    builder = ReferenceBuilder(ContentTypes(), "check")
    clock = world.servers[0].clock
    feeds = EventFeeds(clock, event_lock(world), builder, lambda _: b"", poll_ms=0)
    feed = feeds.attend(context, StreamScope(scope))
    start = tokens_of(world, scope).read(last_token(world, client, scope))
    return [
        event
        for one in PastChanges(feed, start)
        for event in builder.build(one.change, events.CHANGE_TYPES, lambda _: True)
    ]


def event_lock(world: World) -> NewLock:
    return Server(world, "rest", world.servers[0].clock.now_us()).new_lock


CHECKS = {"order": check_order, "complete": check_complete}


def reconnects(server: Server) -> list[Act]:
    """What runs on a server that was started again: clients come back."""
    for one in list(server.world.watched):
        if isinstance(one, Session) and one.server == server.name:
            server.world.watched.append(Session(one.client, server.name, is_open=False))
    return [follows("every-1", EVERY, 2), finds]


def scenario(name: str, servers: dict[str, list[Act]], *, crash: bool = False) -> Scenario:
    return Scenario(
        name=name,
        servers=servers,
        checks=CHECKS,
        setup=set_up,
        open=StreamApp,
        restart=reconnects if crash else None,
        faults=CRASHES if crash else LOST_REPLIES,
    )


SCENARIOS = [
    scenario(
        "one reference, two servers",
        {"A": [commits("a1", "a2"), follows("main-1", MAIN, 3)], "B": [commits("b1", "b2")]},
    ),
    scenario(
        "moves and commits of one reference",
        {"A": [follows("main-1", MAIN, 3), reads(4)], "B": [commits("b1"), assigns, assigns]},
    ),
    scenario(
        "a pattern, created and deleted",
        {"A": [follows("every-1", EVERY, 3), reads(4)], "B": [creates, deletes, creates]},
    ),
    scenario(
        "a creation that others finish",
        {"A": [finds, follows("every-1", EVERY, 3)], "B": [creates, commits("b1"), deletes]},
    ),
    scenario(
        "a client that changes servers",
        {
            "A": [commits("a1", "a2"), follows("every-1", EVERY, 2)],
            "B": [stays(EVERY), follows("every-1", EVERY, 2), creates],
        },
    ),
    scenario(
        "a server that ends",
        {"A": [creates, commits("a1"), follows("every-1", EVERY, 2)], "B": [deletes, commits("b")]},
        crash=True,
    ),
]
