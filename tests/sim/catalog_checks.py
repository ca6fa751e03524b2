"""What must hold of a catalog when the actors have ended, as its users see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lochan.access.policy import Call
from lochan.base.ids import ObjId
from lochan.base.names import RefName
from lochan.codec.rows import Move
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import iterate_log
from lochan.model.commits import ContentKey, LogEntry, Put
from lochan.model.contents import Content, IcebergTable, Namespace
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.testing.invariants import all_rows, check_chain, check_references
from lochan.testing.sim import Event, History, World

RELIES = "relies"
_LATER = 1 << 62

State = dict[ContentKey, Content]


def fresh(world: World) -> Repository:
    """The repository as a new server reads it afterwards."""
    repository: Repository = world.new_server("checker").app.repository
    return repository


def log_of(repository: Repository, spec: str = "main") -> list[LogEntry]:
    """The commits of a branch with what they did, oldest first."""
    return list(repository.history.log(Call(), parse_spec(spec), fetch_all=True).items)[::-1]


def apply(state: State, entry: LogEntry) -> None:
    for operation in entry.operations or ():
        if isinstance(operation, Put):
            state[operation.key] = operation.content
        else:
            del state[operation.key]


def location(content: Content | None) -> str:
    return content.metadata_location if isinstance(content, IcebergTable) else "nothing"


def relied_on(entry: LogEntry) -> list[tuple[ContentKey, str]]:
    """What the writer of a commit had seen when it was written, by key."""
    stated = dict(entry.meta.properties).get(RELIES, ())
    pairs = [one.split("=", 1) for one in stated]
    return [(tuple(key.split(".")), seen) for key, seen in pairs]


def commits_stand_on_what_they_saw(world: World, history: History) -> None:
    """No lost update: what a writer had read is what its commit found, in every commit of main."""
    repository = fresh(world)
    check_chain(repository.context, ObjId(all_rows(repository.context)["main"].pointer))
    state: State = {}
    for entry in log_of(repository):
        for key, seen in relied_on(entry):
            there = location(state.get(key))
            assert there == seen, f"{entry.meta.message} was made on {seen} and replaced {there}"
        apply(state, entry)
        namespaces_are_there(state, entry)
        ids_are_unique(state, entry)
    page = repository.contents.entries(Call(), parse_spec("main"), with_content=True)
    assert {one.key: one.content for one in page.items} == state, "K7: contents are the log's sum"


def namespaces_are_there(state: State, entry: LogEntry) -> None:
    """Every parent of a key is a namespace."""
    for key in state:
        for length in range(1, len(key)):
            parent = state.get(key[:length])
            assert isinstance(parent, Namespace), (
                f"after {entry.meta.message} {key} is there without its namespace"
            )


def ids_are_unique(state: State, entry: LogEntry) -> None:
    """K10: no two live keys are the same content."""
    ids = [content.id for content in state.values()]
    assert None not in ids
    assert len(set(ids)) == len(ids), f"after {entry.meta.message} one content has two keys"


def heads_of(context: RepositoryContext, name: str) -> list[ObjId]:
    """Where a reference points and has pointed, in all of its incarnations."""
    row = all_rows(context).get(name)
    heads = [] if row is None else [ObjId(row.pointer)]
    heads += [ObjId(move.old) for move in (row.moves if row else ()) if move.old]
    log = context.moves.fetch_before(name, _LATER, _LATER, 1_000)
    return heads + [ObjId(move.old) for _, move in log if isinstance(move, Move) and move.old]


def messages_of(context: RepositoryContext, name: str) -> list[str]:
    """The messages of all commits that a branch has or had, one for each commit."""
    seen: dict[ObjId, str] = {}
    for head in heads_of(context, name):
        for view in iterate_log(context.views, head):
            if view.body is not None:
                seen[view.obj_id] = view.body.message
    return list(seen.values())


def named(event: Event) -> str:
    """The name of the commit that an actor wanted."""
    return str(event.arguments[1])


def wanted(history: History) -> list[Event]:
    return history.of("update", "own", "create", "drop", "rename")


def commits_are_done_once(world: World, history: History) -> None:
    """K2 to K5 for commits on main: nothing lost, nothing twice, nothing refused, in order."""
    repository = fresh(world)
    check_messages(repository.context, "main", wanted(history))
    order = {entry.meta.message: at for at, entry in enumerate(log_of(repository))}
    done = [event for event in wanted(history) if event.acknowledged]
    for one in done:
        for other in done:
            if one.before(other) and named(one) in order and named(other) in order:
                assert order[named(one)] < order[named(other)], "K4: real time is kept"


def check_messages(context: RepositoryContext, name: str, events: Iterable[Event]) -> None:
    found = messages_of(context, name)
    for event in events:
        count = found.count(named(event))
        assert count <= 1, f"K3: {named(event)} was applied twice"
        if event.acknowledged:
            assert count == 1, f"K2: {named(event)} was acknowledged and is lost"
        elif not event.uncertain:
            assert count == 0, f"K5: {named(event)} was refused and is there"


def refusals_are_true(world: World, history: History) -> None:
    """K6: who is refused was overtaken on one of its keys; who touches other keys never is."""
    entries = log_of(fresh(world))
    places = {entry.meta.hash: at for at, entry in enumerate(entries)}
    for event in history.of("own"):
        assert event.acknowledged or event.outcome in MISHAPS, f"K6: {named(event)} {event.outcome}"
    for event in history.of("update", "rename"):
        if event.acknowledged or event.outcome in MISHAPS:
            continue
        assert event.outcome == "keys_conflict", f"{named(event)} got {event.outcome}"
        expected: Any = event.arguments[2]
        seen: Any = event.arguments[4]
        later = entries[places[expected] + 1 :]
        touched = {one.key for entry in later for one in entry.operations or ()}
        assert touched & set(seen), f"K6: {named(event)} was refused for nothing"


MISHAPS = ("unknown", "unavailable", "exhausted", "crashed", "open")
"""Outcomes that do not depend on the request."""


def answers_agree(world: World, history: History) -> None:
    """K3 for clients: wherever and however often it was sent, one effect and one answer."""
    context = fresh(world).context
    found = messages_of(context, "main")
    for name in {named(event) for event in history.of("sent")}:
        answers = [event.result for event in history.acknowledged("sent") if named(event) == name]
        assert all(answer == answers[0] for answer in answers), f"{name}: {answers}"
        assert found.count(name) <= 1, f"K3: {name} took effect twice"
        assert found.count(name) == 1 or not answers, f"K2: {name} was acknowledged and is lost"
        for answer in answers:
            view = context.views.load(ObjId(bytes.fromhex(answer.hash)))
            assert view.body is not None
            assert view.body.message == name, "the answer names another commit"
    for event in history.of("sent"):
        assert event.acknowledged or event.outcome in MISHAPS, f"sent: {event.outcome}"


def merges_are_whole(world: World, history: History) -> None:
    """A merge brings all of the source once, in commits that follow each other, or nothing."""
    repository = fresh(world)
    entries = log_of(repository)
    side = repository.references.get(Call(), "side").hash
    brought = {
        one.key
        for one in repository.history.diff(Call(), parse_spec("main~0"), parse_spec("side")).items
    }
    closing = [at for at, entry in enumerate(entries) if side in entry.meta.parents[1:]]
    assert len(closing) <= 1, "the source was merged twice"
    replays = [at for at, entry in enumerate(entries) if entry.meta.message.startswith("side")]
    if closing and replays:
        assert replays == [closing[0] - 1, closing[0]], "a replay is not whole"
    elif replays:
        raise AssertionError("half a replay is there")
    if closing and not replays:
        keys = {one.key for one in entries[closing[0]].operations or ()}
        assert keys >= {("sn",), ("sn", "t"), ("ns", "x"), ("ns", "s")}, "a merge brings everything"
    hashes = {entry.meta.hash for entry in entries}
    for event in history.of("merge"):
        if event.acknowledged:
            assert closing, "K2: a merge was acknowledged and is lost"
            assert event.result.hash in hashes
            assert not brought & {("sn",), ("sn", "t"), ("ns", "s")}
        elif event.outcome not in MISHAPS:
            assert event.outcome == "keys_conflict", f"a merge got {event.outcome}"
            touched = [one.key for entry in entries for one in entry.operations or ()]
            assert touched.count(("ns", "x")) > 1, "K6: a merge was refused for nothing"


def references_are_right(world: World, history: History) -> None:
    """R1 to R4 and the ref-log: acknowledged moves are recorded once, refused ones never."""
    repository = fresh(world)
    repository.references.list(Call())
    check_references(repository.context)
    check_messages(repository.context, "one", history.of("commit"))
    moves = [move for move in moves_of(repository, "one") if move.kind != "commit"]
    recorded = [move.who for move in moves]
    for event in history.of("make", "assign", "delete"):
        count = recorded.count(named(event))
        assert count <= 1, f"{named(event)} took effect twice"
        if event.acknowledged:
            assert count == 1, f"{named(event)} was acknowledged and is not in the ref-log"
            assert (
                event.operation == "make"
                or moves[recorded.index(named(event))].old == (event.arguments[2])
            ), f"{named(event)} moved what was not expected"
        elif not event.uncertain:
            assert count == 0, f"K5: {named(event)} was refused and is in the ref-log"


def moves_of(repository: Repository, name: str) -> list[Any]:
    """The whole ref-log of a name that may never have been."""
    if not heads_of(repository.context, RefName(name)) and name not in all_rows(repository.context):
        return []
    return list(repository.references.log(Call(), name, 1_000).items)


def made_branches_take_commits(world: World, history: History) -> None:
    """A commit to a branch that was created, and not deleted, never gets "not found"."""
    made = history.acknowledged("make")
    for event in history.of("commit"):
        if event.outcome == "reference_not_found" and not history.of("delete"):
            assert not any(one.before(event) for one in made), "a branch was reported as missing"


def half_made_branches_take_commits(world: World, history: History) -> None:
    """The same for one whose maker died, if that was long before: it is there for all or none."""
    names = {one.name for one in fresh(world).references.list(Call()).items}
    for event in history.of("commit", "sent"):
        if event.outcome == "reference_not_found":
            assert "one" not in names, "a listed branch was reported as missing"
