"""Staged files under the explorer: what actors do, and what must hold afterwards (S1 to S12).

Every write has a value of its own, so that a value that was read names its write. A deletion is a
write of "nothing"; a merge that brings a file is a write of it; so is the re-creation of a branch,
which brings back what its first commit had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

from lochan.base.errors import LochanError
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Universe, file_key
from lochan.base.names import RefName, ref_name
from lochan.codec.elements import decode_file
from lochan.index.layers import find_many
from lochan.kernel.merge import Choices, MergeProposal
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.kernel.views import CommitView
from lochan.persist.references import References
from lochan.persist.staged import tokens_of
from lochan.staging.committer import TAKEN_HEADER, CommitTexts
from lochan.staging.conditions import IfAbsent
from lochan.staging.listing import ListedFile
from lochan.staging.staging import Staging
from lochan.staging.sweeper import sweep_tokens
from lochan.staging.tokens import TokenRows
from lochan.testing.invariants import all_rows, check_chain, check_operations, line_of
from lochan.testing.sim import NO_FAULTS, Event, Faults, History, Scenario, Server, World
from tests.sim.kernel_scenarios import Write, parts_of
from tests.staging.workbench import entry_of

MAIN = ref_name("main")
SIDE = ref_name("side")
WHO = Initiator("sim")
PATHS = ("x", "y", "m")
HOUR_MS = 3_600_000.0

LOSSY = Faults(lost_reply=0.06, late=0.05, not_applied=0.03, most=3)
CRASHES = Faults(lost_reply=0.03, late=0.04, crash_before=0.03, crash_after=0.04, most=3)


class App:
    """What one server has in memory."""

    def __init__(self, server: Server) -> None:
        self.context = parts_of(server, server.world.prepared)
        self.names = ReferenceIndex(self.context)
        self.staging = Staging(self.context, self.names, server.new_lock)
        self.rounds: set[object] = set()
        put_each = self.context.staged.put_each

        def counted(token: StagingToken, records: Any) -> Any:
            # To write over another record of the same token is no further round.
            self.rounds.update((token, one.value) for one in records)
            return put_each(token, records)

        self.context.staged.put_each = counted  # type: ignore[method-assign]


def set_up(server: Server) -> Any:
    """Main and side have the file x; side also has m, which main has not."""
    ports = Ports(server.clock, server.random, server.waiting)
    context = create_repository(server.store, ports, "default")
    names = ReferenceIndex(context)
    staging = Staging(context, names, server.new_lock)
    staging.writer.put(MAIN, file_key("x"), entry_of("first"))
    staging.committer.commit(Publisher(context, MAIN), MAIN, text_of("first"))
    head = ObjId(names.get(MAIN).row.pointer)
    names.create_many([NewReferenceRow(SIDE, "BRANCH", head)], WHO)
    staging.writer.put(SIDE, file_key("m"), entry_of("merged"))
    staging.committer.commit(Publisher(context, SIDE), SIDE, text_of("side"))
    return context.instance, context.description


def text_of(message: str) -> CommitTexts:
    return CommitTexts(message, hidden=(("operation", (message,)),))


def put(server: Server, branch: RefName, path: str, value: str) -> None:
    server.app.staging.writer.put(branch, file_key(path), entry_of(value))


def writes(path: str, *values: str, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for value in values:
            server.attempt("write", put, server, branch, path, value)

    return act


def claims_path(path: str, value: str) -> Callable[[Server], None]:
    """Puts a file if there is none."""

    def put_if_absent(_: Server, branch: RefName, path: str, value: str) -> None:
        app = _.app
        app.staging.writer.put(branch, file_key(path), entry_of(value), IfAbsent())

    def act(server: Server) -> None:
        server.attempt("write", put_if_absent, server, MAIN, path, value)

    return act


def deletes(path: str) -> Callable[[Server], None]:
    def delete(server: Server, branch: RefName, path: str) -> bool:
        return bool(server.app.staging.writer.delete(branch, file_key(path)))

    def act(server: Server) -> None:
        server.attempt("delete", delete, server, MAIN, path)

    return act


def read(server: Server, branch: RefName, path: str) -> str | None:
    found = server.app.staging.reader.find(branch, file_key(path))
    return None if found is None else str(found.address)


def reads(path: str, times: int = 1, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("read", read, server, branch, path)

    return act


def fetches(times: int) -> Callable[[Server], None]:
    """Reads the row of main, sharing the read with other actors; the result is its version."""

    def fetch(server: Server) -> int:
        # Which read is joined is decided before the first call of the store.
        server.pause("begin")
        return int(server.app.staging.rows.fetch(MAIN).version)

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("fetch", fetch, server)

    return act


def rows_are_new_enough(world: World, history: History) -> None:
    """A row that was read has every commit that was acknowledged before the read was asked for."""
    first = world.new_server("checker").app.names.get(MAIN).row.version
    first -= len(history.acknowledged("tables"))
    for event in history.acknowledged("fetch"):
        done = [one for one in history.acknowledged("tables") if one.before(event)]
        assert event.result >= first + len(done), "an old row was shared"


def listing(server: Server, branch: RefName) -> dict[str, str]:
    page = server.app.staging.listings.page(branch)
    assert page.next_after is None
    return {one.path: one.entry.address for one in page.items if isinstance(one, ListedFile)}


def lists(times: int = 1) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("list", listing, server, MAIN)

    return act


def commit_files(server: Server, branch: RefName, message: str, tables: bool) -> Published:
    app = server.app
    texts = text_of(message)
    more = {"tables": Write(message, [message])} if tables else {}
    publisher = Publisher(app.context, branch, app.names.find)
    published: Published = app.staging.committer.commit(publisher, branch, texts, **more)
    return published


def commits(*names: str, tables: bool = False, branch: RefName = MAIN) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for message in names:
            server.attempt("commit_files", commit_files, server, branch, message, tables)

    return act


def commit_tables(server: Server, name: str) -> None:
    app = server.app
    publisher = Publisher(app.context, MAIN, app.names.find)
    (settled,) = publisher.publish([Write(name, [name])])
    if isinstance(settled, LochanError):
        raise settled


def table_commits(*names: str) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for name in names:
            server.attempt("tables", commit_tables, server, name)

    return act


def merges(server: Server) -> None:
    """Merges side into main, which brings the file m."""

    def merge(server: Server, branch: RefName, path: str, value: str) -> None:
        app = server.app
        source = app.context.views.load(ObjId(app.names.get(SIDE).row.pointer))
        hidden = text_of("merge").hidden
        proposal = MergeProposal(app.context, source, "merge", Choices(), hidden=hidden)
        (settled,) = Publisher(app.context, branch, app.names.find).publish([proposal])
        if isinstance(settled, LochanError):
            raise settled

    server.attempt("write", merge, server, MAIN, "m", "merged")


def recreates(server: Server) -> None:
    """Deletes side and creates it again from main."""
    names = server.app.names

    def delete(server: Server, branch: RefName) -> None:
        names.delete(SIDE, ObjId(names.get(SIDE).row.pointer), WHO)

    def create(server: Server, branch: RefName) -> None:
        pointer = ObjId(names.get(MAIN).row.pointer)
        names.create_many([NewReferenceRow(SIDE, "BRANCH", pointer)], WHO)

    server.attempt("gone", delete, server, SIDE)
    server.attempt("recreate", create, server, SIDE)


def sweeps(server: Server) -> None:
    """Once: no writer is under way for longer than the hour between two drops of a token."""
    server.waiting.sleep_ms(HOUR_MS)
    server.attempt("sweep", sweep_tokens, server.app.context)


def in_turn(*acts: Callable[[Server], None]) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        for one in acts:
            one(server)

    return act


# What must hold.


def watch_tokens(world: World) -> None:
    """Keeps every state of the rows: for the order and the reuse of tokens."""
    instance, _ = world.prepared
    rows = References(world.store, instance)
    found = rows.fetch_many([MAIN, SIDE])
    seen = tuple(
        (one.row.name, one.row.incarnation, one.row.staging_token, one.row.sealed_tokens)
        for one in found
        if one is not None and not one.row.deleted
    )
    if not world.watched or world.watched[-1] != seen:
        world.watched.append(seen)


def tokens_are_in_order(world: World, history: History) -> None:
    """S8 and S9: sealed tokens leave at the old end and come at the new one; none comes back."""
    gone: set[bytes] = set()
    before: dict[str, tuple[int, tuple[bytes, ...]]] = {}
    for state in world.watched:
        for name, incarnation, staging, sealed in state:
            tokens = (*sealed, staging) if staging else sealed
            assert gone.isdisjoint(tokens), "S9: a token came back"
            old_incarnation, old = before.get(name, (incarnation, ()))
            if old_incarnation != incarnation:
                assert set(old).isdisjoint(tokens), "S9: another incarnation has the token"
                gone.update(old)
            else:
                left = tuple(token for token in old if token in tokens)
                assert left == old[len(old) - len(left) :], "S8: a newer token left first"
                assert left == tokens[: len(left)], "S8: a token came before an older one"
                gone.update(set(old).difference(tokens))
            before[name] = (incarnation, tokens)


Effect = tuple[Event, str, str | None]
"""An event that writes: the path, and the value, None for a deletion."""


def effects(history: History, branch: RefName) -> Iterator[Effect]:
    for event in history.of("write"):
        _, where, path, value = event.arguments
        if where == branch:
            yield event, str(path), str(value)
    for event in history.of("delete"):
        _, where, path = event.arguments
        if where == branch and (event.result or not event.acknowledged):
            yield event, str(path), None
    for event in history.of("recreate"):
        if branch == SIDE:
            for path in PATHS:
                yield event, path, "first" if path == "x" else None


def observations(
    world: World, history: History, branch: RefName
) -> Iterator[tuple[Event, dict[str, str | None]]]:
    """What readers, listings and commits have seen; last what is there at the end."""
    for event in history.acknowledged("read"):
        if event.arguments[1] == branch:
            yield event, {str(event.arguments[2]): event.result}
    for event in history.acknowledged("list"):
        if event.arguments[1] == branch:
            yield event, {path: event.result.get(path) for path in PATHS}
    checker = world.new_server("checker")
    for event in history.acknowledged("commit_files"):
        if event.arguments[1] == branch:
            yield event, content_of(checker, event.result.commits[-1])
    last = Event("end", "checker", "list", ())
    last.start = last.end = 10**9
    try:
        row = checker.app.names.get(branch).row
    except LochanError:
        return
    files = listing(checker, RefName(row.name))
    yield last, {path: files.get(path) for path in PATHS}


def content_of(server: Server, view: CommitView) -> dict[str, str | None]:
    context = server.app.context
    keys = sorted(file_key(path) for path in PATHS)
    found = find_many(context.nodes, context.views.load(view.obj_id).index(Universe.FILES), keys)
    return {
        key[1:].decode(): None if raw is None else decode_file(raw).address
        for key, raw in zip(keys, found, strict=True)
    }


def files_are_right(world: World, history: History) -> None:
    """S1 to S7 and S11, on both branches."""
    for branch, initial in ((MAIN, {"x": "first"}), (SIDE, {"x": "first", "m": "merged"})):
        written = list(effects(history, branch))
        for event, shown in observations(world, history, branch):
            for path, value in shown.items():
                check_value(event, path, value, initial.get(path), written)


def check_value(
    reader: Event, path: str, value: str | None, initial: str | None, written: list[Effect]
) -> None:
    """A value is that of a write which neither began later nor was overwritten before."""
    here = [(event, what) for event, where, what in written if where == path]
    acknowledged = [event for event, _ in here if event.acknowledged]
    earlier = [event for event in acknowledged if event.before(reader)]
    if value == initial and not earlier:
        return
    for event, what in here:
        if what != value or reader.before(event):
            continue
        if not (event.acknowledged or event.uncertain):
            continue
        if not any(event.before(later) for later in earlier):
            return
    raise AssertionError(f"{reader} saw {value!r} at {path!r}; writes: {[e for e, _ in here]}")


def history_is_right(world: World, history: History) -> None:
    """Commits are in history once, refused ones are not, and each token was taken once."""
    checker = world.new_server("historian")
    context = checker.app.context
    rows = all_rows(context)
    done = [event for event in history.of("commit_files") if event.arguments[1] == MAIN]
    acknowledged = [str(event.arguments[2]) for event in done if event.acknowledged]
    refused = [
        str(event.arguments[2]) for event in done if not event.acknowledged and not event.uncertain
    ]
    tables = history.of("tables")
    acknowledged += [str(event.arguments[1]) for event in tables if event.acknowledged]
    check_operations(context, rows[MAIN], acknowledged, refused)
    for name in (MAIN, SIDE):
        if name in rows:
            check_chain(context, ObjId(rows[name].pointer))
    taken = [
        token
        for view in line_of(context, ObjId(rows[MAIN].pointer))
        if view.body is not None
        for token in dict(view.body.hidden).get(TAKEN_HEADER, ())
    ]
    assert len(taken) == len(set(taken)), "a token was taken by two commits"


def nothing_is_left_over(world: World, history: History) -> None:
    """S10: after a commit of what is left and the sweeps, only the present tokens have records."""
    server = world.new_server("sweeper")
    app = server.app
    for name in (MAIN, SIDE):
        try:
            commit_files(server, name, "at the end", tables=False)
        except LochanError:
            continue
    # The clocks of other servers are some hours ahead.
    server.clock.advance_us(24 * int(HOUR_MS) * 1_000)
    for _ in range(4):
        server.clock.advance_us(int(HOUR_MS) * 1_000)
        sweep_tokens(app.context)
    rows = [row for row in all_rows(app.context).values() if not row.deleted]
    alive = {token for row in rows for token in tokens_of(row)}
    assert not [row.name for row in rows if row.sealed_tokens], "S10: a token is still sealed"
    left = TokenRows(app.context.store, app.context.instance).scan(b"", 1_000).rows
    assert {found.row.token for found in left} <= alive, "S10: a dead token is registered"
    seen = {token for state in world.watched for *_, one, more in state for token in (one, *more)}
    for token in seen - alive:
        if token:
            assert app.context.staged.is_empty(StagingToken(token)), "S10: an orphan"


def writers_retry_rarely(world: World, history: History) -> None:
    """S12: a writer writes again at most twice for each seal beside it; without faults only."""
    seals = sum(
        one[2] != other[2]
        for before, after in pairwise(world.watched)
        for one, other in zip(before, after, strict=True)
    )
    rounds = sum(len(server.app.rounds) for server in world.servers)
    assert rounds <= len(history.of("write")) + 2 * seals


def values_of_history(world: World) -> list[str | None]:
    """The values that the file x has in the commits of main, oldest first, each once in a row."""
    server = world.new_server("reader of history")
    context = server.app.context
    line = line_of(context, ObjId(all_rows(context)[MAIN].pointer))
    values = [content_of(server, view)["x"] for view in line]
    return [value for value, _ in groupby(values)]


def increments(server: Server) -> None:
    """Reads a number and writes the next one, as a careless application does."""
    found = server.attempt("read", read, server, MAIN, "x")
    number = 1 if found in (None, "first") else int(str(found))
    server.attempt("write", put, server, MAIN, "x", str(number + 1))


def found_1_3_2(world: World, history: History) -> None:
    """Fails, because it is found, if an observer saw 3 before 2."""
    seen = [str(event.result) for event in history.acknowledged("read") if event.server == "s4"]
    assert "2" not in seen[seen.index("3") :] if "3" in seen else True, "1-3-2"


def found_banana(world: World, history: History) -> None:
    """Fails, because it is found, if history alternates between two concurrent writes."""
    text = "".join(str(value) for value in values_of_history(world))
    assert "ANA" not in text and "NAN" not in text, text


CHECKS = {
    "tokens": tokens_are_in_order,
    "files": files_are_right,
    "history": history_is_right,
    "rest": nothing_is_left_over,
}


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("checks", CHECKS)
    return Scenario(name=name, servers=servers, setup=set_up, open=App, watch=watch_tokens, **more)


SCENARIOS = [
    scenario(
        "writers beside committers",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [writes("x", "b1"), writes("y", "c1")],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "servers that die",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [commits("c1", "c2")],
            "s3": [in_turn(writes("y", "b1"), commits("c3"))],
        },
        faults=CRASHES,
        restart=lambda server: [in_turn(reads("x"), commits(f"again {server.name}"))],
    ),
    scenario(
        "readers and listings beside commits and sweeps",
        {
            "s1": [in_turn(writes("x", "a1"), deletes("y"), writes("y", "a2"))],
            "s2": [reads("x", 2), lists(2)],
            "s3": [commits("c1", "c2")],
            "s4": [sweeps],
        },
    ),
    scenario(
        "table commits and merges on the same row",
        {
            "s1": [in_turn(writes("x", "a1"), commits("c1", tables=True))],
            "s2": [table_commits("t1", "t2")],
            "s3": [in_turn(merges, reads("m"))],
            "s4": [writes("m", "a2")],
        },
    ),
    scenario(
        "a branch that is deleted and created again",
        {
            "s1": [writes("x", "a1", "a2", branch=SIDE), reads("x", 2, SIDE)],
            "s2": [recreates],
            "s3": [commits("c1", branch=SIDE)],
            "s4": [sweeps],
        },
    ),
    scenario(
        "conditional writes",
        {
            "s1": [claims_path("y", "a1")],
            "s2": [claims_path("y", "b1")],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "deletions and overwrites",
        {
            "s1": [in_turn(deletes("x"), reads("x"))],
            "s2": [in_turn(writes("x", "b1"), deletes("x"))],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "commits without changes",
        {
            "s1": [in_turn(writes("x", "first"), commits("c1"))],
            "s2": [in_turn(writes("y", "b1"), commits("c2", "c3"))],
            "s3": [lists(2)],
        },
    ),
]

SCENARIOS += [
    scenario(
        "reads that actors of one server share",
        {
            "s1": [fetches(3), fetches(3)],
            "s2": [table_commits("t1", "t2")],
        },
        return_points=True,
        faults=NO_FAULTS,
        checks={"rows": rows_are_new_enough},
    ),
    scenario(
        "writers without faults",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [writes("x", "b1")],
            "s3": [commits("c1", "c2", "c3")],
        },
        faults=NO_FAULTS,
        checks={**CHECKS, "retries": writers_retry_rarely},
    ),
]

ANOMALIES = [
    scenario(
        "1-3-2",
        {"s1": [increments], "s2": [increments], "s3": [commits("c1")], "s4": [reads("x", 4)]},
        faults=NO_FAULTS,
        checks={"1-3-2": found_1_3_2},
    ),
    scenario(
        "banana",
        {
            "s1": [writes("x", "N")],
            "s2": [writes("x", "A")],
            "s3": [commits("c1", "c2", "c3", "c4")],
        },
        faults=NO_FAULTS,
        checks={"banana": found_banana},
    ),
]
"""What the promises allow: each must be found, or the explorer does not explore."""
