"""Staged files under the explorer: what must hold afterwards.

| promise | check |
|---|---|
| S1 after a write, reads return it or one that did not happen before it | `files_are_right` |
| S2, S3 a read, a listing returns writes that did not happen after it | `files_are_right` |
| S4 a commit holds a listing of everything | `files_are_right`: the content of every commit |
| S5 what was refused is not seen; what is unknown may be | `files_are_right`, `history_is_right` |
| S6 no acknowledged write is lost | `files_are_right`: what is there at the end |
| S7 a write that ended before a commit began is in it, or was overwritten | `files_are_right` |
| S8 tokens leave at the old end and come at the new one | `tokens_are_in_order`, after every step |
| S9 a token is never used again | `tokens_are_in_order`, `history_is_right` |
| S10 at rest nothing is sealed, and no dead token has records | `nothing_is_left_over` |
| S11 a deletion is not undone by an older token | `files_are_right`: a deletion is a write |
| S12 within three calls a write ends, or the row has changed | `rounds_are_short` |
| S12 a write is put again twice at most for each seal beside it | `writers_retry_rarely` |
| S13 what is not promised is found | `found_1_3_2`, `found_banana`, and a merge beside a claim |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from lochan.base.errors import LochanError, NothingToCommit
from lochan.base.ids import ObjId, StagingToken
from lochan.base.keys import Universe, file_key
from lochan.base.names import RefName
from lochan.codec.elements import decode_file
from lochan.index.layers import find_many
from lochan.kernel.views import CommitView
from lochan.persist.references import References
from lochan.persist.staged import tokens_of
from lochan.staging.committer import TAKEN_HEADER
from lochan.staging.folds import is_folded
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

ENDLESS: Final = 10**9
"""A step that no run has."""


def rows_are_new_enough(world: World, history: History) -> None:
    """A row that was read has every commit that was acknowledged before the read was asked for."""
    first = world.new_server("checker").app.names.get(MAIN).row.version
    first -= len(history.acknowledged("tables"))
    for event in history.acknowledged("fetch"):
        done = [one for one in history.acknowledged("tables") if one.before(event)]
        assert event.result >= first + len(done), "an old row was shared"


class WatchedRow(NamedTuple):
    """The row of a branch at some moment."""

    name: str
    incarnation: int
    staging: bytes
    sealed: tuple[bytes, ...]
    pointer: bytes

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """All tokens, the oldest first."""
        return (*self.sealed, self.staging) if self.staging else self.sealed


class Watched(NamedTuple):
    """The rows as they were from a step on, until the next one that was kept."""

    step: int
    rows: tuple[WatchedRow, ...]


def watch_tokens(world: World) -> None:
    """Keeps every state of the rows."""
    found = References(world.store, world.prepared[0]).fetch_many([MAIN, SIDE])
    seen = tuple(
        WatchedRow(
            one.row.name,
            one.row.incarnation,
            one.row.staging_token,
            one.row.sealed_tokens,
            one.row.pointer,
        )
        for one in found
        if one is not None and not one.row.deleted
    )
    if not world.watched or world.watched[-1].rows != seen:
        world.watched.append(Watched(len(world.trace.steps), seen))


def tokens_are_in_order(world: World, history: History) -> None:
    """S8 and S9: sealed tokens leave at the old end and come at the new one; none comes back."""
    gone: set[bytes] = set()
    before: dict[str, tuple[int, tuple[bytes, ...]]] = {}
    whole = [event for event in history.of("reset") if event.arguments[2] == PATHS]
    given_up = {str(event.arguments[1]) for event in whole}
    for row in (row for state in world.watched for row in state.rows):
        tokens = row.tokens
        assert gone.isdisjoint(tokens), "S9: a token came back"
        incarnation, old = before.get(row.name, (row.incarnation, ()))
        if incarnation != row.incarnation:
            assert set(old).isdisjoint(tokens), "S9: another incarnation has the token"
            gone.update(old)
        elif new := [one for one in tokens if is_folded(one) and one not in old]:
            # One swap: a folded token is in the place of those that it has.
            (at,) = [tokens.index(one) for one in new]
            behind = tokens[at + 1 :]
            assert tokens[:at] == old[:at], "S8: a token came before an older one"
            assert behind == old[len(old) - len(behind) :], "S8: a newer token left"
            gone.update(set(old).difference(tokens))
        else:
            left = tuple(token for token in old if token in tokens)
            # A reset of the branch takes the newest one too.
            taken = left == old[len(old) - len(left) :] or row.name in given_up
            assert taken, "S8: a newer token left first"
            assert left == tokens[: len(left)], "S8: a token came before an older one"
            gone.update(set(old).difference(tokens))
        before[row.name] = (row.incarnation, tokens)


def heads_between(world: World, branch: RefName, start: int, end: int) -> set[bytes]:
    """Returns the heads that a branch had while an operation ran."""
    found: set[bytes] = set()
    states: list[Watched] = world.watched
    for state, later in pairwise([*states, Watched(ENDLESS, ())]):
        if state.step <= end + 1 and later.step > start:
            found.update(row.pointer for row in state.rows if row.name == branch)
    return found


Effect = tuple[Event, str, Collection[str | None]]
"""An event that writes: the path, and what it may have left there, None for no file."""


def effects(world: World, history: History, branch: RefName) -> Iterator[Effect]:
    for event in history.of("write", "claim"):
        _, where, path, value = event.arguments
        if where == branch:
            yield event, str(path), [str(value)]
    for event in history.of("delete", "delete_many"):
        _, where, *paths = event.arguments
        if where == branch and (event.result is not False or not event.acknowledged):
            for path in paths:
                yield event, str(path), [None]
    for event in history.of("recreate"):
        if branch == SIDE:
            for path in PATHS:
                yield event, path, ["first" if path == "x" else None]
    for event in history.of("reset"):
        if event.arguments[1] == branch:
            contents = shown_by_reset(world, history, event)
            for path in event.arguments[2]:  # type: ignore[attr-defined]
                yield event, path, [content[path] for content in contents]


def shown_by_reset(world: World, history: History, reset: Event) -> list[dict[str, str | None]]:
    """Returns what a branch may show after a reset: its head, and what a commit beside it brings.

    A commit that began before the reset has ended may publish later what it had sealed.
    """
    server = world.new_server("reader of heads")
    branch = RefName(str(reset.arguments[1]))
    beside = {str(one.arguments[2]) for one in history.of("commit_files") if not reset.before(one)}
    last = ENDLESS if reset.uncertain else reset.end
    during = heads_between(world, branch, reset.start, last)
    shown = []
    for head in heads_between(world, branch, reset.start, ENDLESS):
        view = server.app.context.views.load(ObjId(head))
        hidden = {} if view.body is None else dict(view.body.hidden)
        if head in during or beside.intersection(hidden.get("operation", ())):
            shown.append(content_of(server, view))
    return shown


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
    last.start = last.end = ENDLESS
    try:
        row = checker.app.names.get(branch).row
    except LochanError:
        return
    files = listing(checker, RefName(row.name))
    yield last, {path: files.get(path) for path in PATHS}


def merges_after_resets_succeed(world: World, history: History) -> None:
    """Nothing is staged after a reset, so a merge that brings the file is no conflict."""
    resets = history.acknowledged("reset")
    done = [event for event in resets if event.arguments[2] in (("m",), PATHS)]
    for event in history.of("write"):
        if event.arguments[3] == "merged" and any(one.before(event) for one in done):
            assert event.outcome != "keys_conflict", "a merge met what was reset"


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
        written = list(effects(world, history, branch))
        for event, shown in observations(world, history, branch):
            for path, value in shown.items():
                check_value(event, path, value, initial.get(path), written)


def refused_commits_have_nothing(world: World, history: History) -> None:
    """A commit that has found nothing to commit saw a head that has all that was staged before."""
    checker = world.new_server("reader of refused commits")
    views = checker.app.context.views
    for event in history.of("commit_files"):
        branch = RefName(str(event.arguments[1]))
        if event.outcome != NothingToCommit.kind or branch != MAIN:
            continue
        written = list(effects(world, history, branch))
        heads = heads_between(world, branch, event.start, event.end)
        contents = [content_of(checker, views.load(ObjId(head))) for head in heads]
        for path in PATHS:
            initial = "first" if path == "x" else None
            found = {content[path] for content in contents}
            assert any(is_right(event, path, value, initial, written) for value in found), (
                f"{event} left {path!r} staged"
            )


def is_right(
    reader: Event, path: str, value: str | None, initial: str | None, written: list[Effect]
) -> bool:
    try:
        check_value(reader, path, value, initial, written)
    except AssertionError:
        return False
    return True


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
        if value not in what or reader.before(event):
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
    seen = {token for state in world.watched for row in state.rows for token in row.tokens}
    for token in seen - alive:
        assert app.context.staged.is_empty(StagingToken(token)), "S10: an orphan"


def claims_are_exclusive(world: World, history: History) -> None:
    """Of writes that demand that there is no file one succeeds, where none is deleted."""
    claimed = [event.arguments[2] for event in history.acknowledged("claim")]
    assert len(claimed) == len(set(claimed)), "a path was claimed twice"


def writers_retry_rarely(world: World, history: History) -> None:
    """S12: a write is put again at most twice for each seal beside it; without faults only.

    One more seal may have come before it began, since its server has read the row last.
    """
    rounds: Counter[str] = Counter()
    for server in world.servers:
        rounds.update(decode_file(raw).address for _, raw in server.app.rounds)
    for event in history.of("write"):
        seals = 1 + len(list(seals_beside(world, event)))
        assert rounds[str(event.arguments[3])] <= 1 + 2 * seals, "S12: too many rounds"


def seals_beside(world: World, event: Event) -> Iterator[int]:
    """Yields the steps at which the staging token of a branch changed while a write ran."""
    branch = event.arguments[1]
    for before, after in pairwise(world.watched):
        old = [row.staging for row in before.rows if row.name == branch]
        new = [row.staging for row in after.rows if row.name == branch]
        if old != new and event.start < after.step <= event.end + 1:
            yield after.step


def rounds_are_short(world: World, history: History) -> None:
    """S12: a round of a writer has three calls, and is the last unless the row has changed.

    A round ends with a read of the row. One more call is for each record that another writer has
    put at the same path meanwhile. The row of the first round may be one from memory.
    """
    changed = [state.step - 1 for state in world.watched]
    for event in history.of("write"):
        key = file_key(str(event.arguments[2]))
        read, count, is_put = -1, 0, False
        for at, (actor, call, _) in enumerate(world.trace.steps[: event.end + 1]):
            if actor != event.actor:
                count -= call.operation == "set_if" and call.arguments[1] == key and at > read
            elif at >= event.start and len(call.possible) > 1:
                count, is_put = count + 1, is_put or call.operation == "set_if"
                if call.operation == "get":
                    assert count <= 3, "S12: a round has too many calls"
                    has_changed = any(read < step <= at for step in changed)
                    assert has_changed or at == event.end or not is_put, "S12: a round for nothing"
                    read, count, is_put = at, 0, False


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


def found_merge_beside_claim(world: World, history: History) -> None:
    """Fails, because it is found, if a merge has brought a file that a claim found to be absent."""
    both = history.acknowledged("write") and history.acknowledged("claim")
    assert not both, "a merge beside a claim"
