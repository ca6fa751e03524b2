"""Staged files under the explorer: what must hold afterwards (S1 to S13)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

from lochan.base.errors import LochanError
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Universe, file_key
from lochan.base.names import RefName
from lochan.codec.elements import decode_file
from lochan.index.layers import find_many
from lochan.kernel.views import CommitView
from lochan.persist.references import References
from lochan.persist.staged import tokens_of
from lochan.staging.committer import TAKEN_HEADER
from lochan.staging.sweeper import sweep_tokens
from lochan.staging.tokens import TokenRows
from lochan.testing.invariants import all_rows, check_chain, check_operations, line_of
from lochan.testing.sim import Event, History, Server, World
from tests.sim.staging_actors import (
    HOUR_MS,
    MAIN,
    PATHS,
    SIDE,
    commit_files,
    listing,
)


def rows_are_new_enough(world: World, history: History) -> None:
    """A row that was read has every commit that was acknowledged before the read was asked for."""
    first = world.new_server("checker").app.names.get(MAIN).row.version
    first -= len(history.acknowledged("tables"))
    for event in history.acknowledged("fetch"):
        done = [one for one in history.acknowledged("tables") if one.before(event)]
        assert event.result >= first + len(done), "an old row was shared"


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


def found_1_3_2(world: World, history: History) -> None:
    """Fails, because it is found, if an observer saw 3 before 2."""
    seen = [str(event.result) for event in history.acknowledged("read") if event.server == "s4"]
    assert "2" not in seen[seen.index("3") :] if "3" in seen else True, "1-3-2"


def found_banana(world: World, history: History) -> None:
    """Fails, because it is found, if history alternates between two concurrent writes."""
    text = "".join(str(value) for value in values_of_history(world))
    assert not {"ANA", "NAN"}.intersection(
        map("".join, zip(text, text[1:], text[2:], strict=False))
    ), text
