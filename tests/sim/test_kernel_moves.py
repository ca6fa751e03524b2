"""Rebase, fast-forward and force beside commits, under lost replies and dying servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.base.ids import ObjId
from lochan.base.keys import table_key
from lochan.base.names import RefName
from lochan.kernel import claims as claims_of_keys
from lochan.kernel import head_moves
from lochan.kernel.head_moves import HeadMoves, Source
from lochan.kernel.merge_choices import Behaviour, Choices
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.reflog import RefLog
from lochan.kernel.views import EMPTY_VIEW
from lochan.testing.invariants import all_rows, check_operations, content_of
from lochan.testing.sim import (
    NO_FAULTS,
    Faults,
    History,
    Server,
    World,
    crash_sweep,
    explore,
)
from tests.profile import counted
from tests.sim.kernel_scenarios import (
    CHECKS,
    MAIN,
    SIDE,
    Write,
    claims,
    claims_are_done_once,
    commits,
    element_of,
    fresh,
    in_turn,
    operation_of,
    publish,
    scenario,
)
from tests.sim.mutants import find_violation

SCHEDULES = counted(150, 1_500)
MUTANT_SCHEDULES = 2_000

MOVES = ("fast_forward", "force", "rebase")


def moves(how: str, name: RefName, source: RefName) -> Callable[[Server], None]:
    """Moves a branch to where another one is, or onto it."""

    def move(server: Server) -> Any:
        context, names = server.app.context, server.app.names
        view = context.views.load(ObjId(names.get(source).row.pointer))
        more = {"choices": Choices(Behaviour.FORCE)} if how == "rebase" else {}
        act = getattr(HeadMoves(context, names), how)
        return act(name, Source(view, source), Initiator(f"{server.name} {how}"), **more)

    def act(server: Server) -> None:
        server.attempt(how, move, server)

    return act


def commits_aside(name: str, count: int) -> Callable[[Server], None]:
    """Commits to side, one after the other."""

    def act(server: Server) -> None:
        publisher = Publisher(server.app.context, SIDE)
        for number in range(count):
            operation = f"{name}{number}"
            server.attempt("aside", publish, publisher, [Write(operation, [operation])])

    return act


def forces_back(server: Server) -> None:
    """Sets main back to where it began, behind every claim."""

    def act() -> Any:
        heads = HeadMoves(server.app.context, server.app.names)
        return heads.force(MAIN, Source(EMPTY_VIEW), Initiator(f"{server.name} force"))

    server.attempt("force", act)


def acknowledged_operations(history: History, kind: str) -> list[str]:
    return [operation_of(event) for event in history.acknowledged(kind)]


def log_of(world: World, name: RefName) -> list[Any]:
    return list(RefLog(fresh(world)).page(name, 1_000).items)


def side_is_right(world: World, history: History) -> None:
    """K2, K3 and K5 on side, as the general checks test them on main."""
    context = fresh(world)
    refused = [
        operation_of(event)
        for event in history.of("aside")
        if not event.acknowledged and not event.uncertain
    ]
    check_operations(
        context, all_rows(context)[SIDE], acknowledged_operations(history, "aside"), refused
    )


def moves_are_in_the_log(world: World, history: History) -> None:
    """An acknowledged move is in the ref-log, one that was refused is not."""
    entries = {name: log_of(world, name) for name in (MAIN, SIDE)}
    for event in history.of(*MOVES):
        who = f"{event.server} {event.operation}"
        known = [one for log in entries.values() for one in log if one.who == who and one.version]
        if event.acknowledged:
            result: Any = event.result
            wanted = result.row.operation.hex() if result.moved else None
            assert wanted is None or wanted in {one.operation for one in known}
        elif not event.uncertain:
            assert not known, "K5: a refused move took effect"


def nothing_is_lost(world: World, history: History) -> None:
    """Without forced moves a branch holds what was committed to it, rebased or not."""
    context = fresh(world)
    rows = all_rows(context)
    for name, kind in ((MAIN, "commit"), (SIDE, "aside")):
        content = content_of(context, context.views.load(ObjId(rows[name].pointer)))
        for operation in acknowledged_operations(history, kind):
            found = content.get(bytes(table_key([operation])))
            assert found == element_of(operation), f"{operation} was lost by a move"


ALL = {**CHECKS, "side": side_is_right, "log": moves_are_in_the_log}
GENTLE = {**ALL, "nothing is lost": nothing_is_lost}
LOSSY = Faults(lost_reply=0.15, late=0.1, not_applied=0.03, most=3)

SCENARIOS = {
    one.name: one
    for one in (
        scenario(
            "rebase beside commits",
            {
                "s1": [in_turn(commits_aside("a", 1), moves("rebase", SIDE, MAIN))],
                "s2": [commits_aside("b", 2)],
                "s3": [commits("c", 2)],
            },
            checks=GENTLE,
            faults=LOSSY,
        ),
        scenario(
            "fast-forward beside commits",
            {
                "s1": [in_turn(moves("rebase", SIDE, MAIN), moves("fast_forward", MAIN, SIDE))],
                "s2": [commits("b", 2)],
                "s3": [in_turn(commits_aside("c", 1), moves("fast_forward", MAIN, SIDE))],
            },
            checks=GENTLE,
            faults=LOSSY,
        ),
        scenario(
            "force beside commits",
            {
                "s1": [in_turn(moves("force", MAIN, SIDE), commits("a", 1))],
                "s2": [commits("b", 2)],
                "s3": [in_turn(commits_aside("c", 1), moves("force", MAIN, SIDE))],
            },
            checks=ALL,
            faults=LOSSY,
        ),
        scenario(
            "claims beside force",
            {
                "s1": [claims("k", 2)],
                "s2": [claims("k", 2)],
                "s3": [in_turn(forces_back, commits("c", 1))],
            },
            checks={**ALL, "claims": claims_are_done_once},
            faults=LOSSY,
        ),
        scenario(
            "rebases against each other, servers that die",
            {
                "s1": [moves("rebase", SIDE, MAIN)],
                "s2": [in_turn(commits("b", 1), moves("rebase", SIDE, MAIN))],
                "s3": [commits_aside("c", 2)],
            },
            checks=GENTLE,
            faults=Faults(lost_reply=0.1, late=0.05, crash_before=0.05, crash_after=0.05, most=3),
            restart=lambda server: [commits_aside(f"again_{server.name}_", 1)],
        ),
    )
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_promise_holds_under_every_schedule(name):
    report = explore(SCENARIOS[name], schedules=SCHEDULES)
    print(report.line())
    assert report.schedules == SCHEDULES
    assert report.lost_replies > SCHEDULES / 20


def test_a_crash_at_any_call_of_a_rebase_leaves_a_branch_that_anyone_can_go_on_with():
    commit_to_main = commits("m", 1)
    reached = 0
    for atomic in (None, False):
        sweep = crash_sweep(
            scenario(
                "rebase and fast-forward",
                {
                    "s1": [
                        in_turn(
                            commit_to_main,
                            moves("rebase", SIDE, MAIN),
                            moves("fast_forward", MAIN, SIDE),
                        )
                    ]
                },
                faults=NO_FAULTS,
                checks=GENTLE,
                atomic_apply=atomic,
            ),
            {
                "commit aside": commits_aside("after", 1),
                "rebase": moves("rebase", SIDE, MAIN),
                "fast-forward": moves("fast_forward", MAIN, SIDE),
            },
        )
        print(sweep.line())
        reached += sweep.reached
    assert reached > 100


def decided_once(patch: pytest.MonkeyPatch) -> None:
    """After a lost swap the same head is set, whatever came between."""
    right = ReferenceIndex.move

    def move(self, name, decide, who, **more):
        memory = []

        def once(row):
            if not memory:
                memory.append(decide(row))
            return memory[0]

        return right(self, name, once, who, **more)

    patch.setattr(ReferenceIndex, "move", move)


def copies_keep_their_operation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(head_moves._Rebase, "_provenance", lambda self, commit, base: commit.body.hidden)


def any_head_may_be_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeadMoves, "fast_forward", HeadMoves.force)


def objects_after_the_swap(patch: pytest.MonkeyPatch) -> None:
    """Stands for a rebase that stores what it made only when the branch has moved."""
    patch.setattr(head_moves._Rebase, "remember", head_moves._Rebase.store)
    patch.setattr(head_moves._Rebase, "store", lambda _: None)


def claims_stop_at_their_generation(patch: pytest.MonkeyPatch) -> None:
    right = claims_of_keys.find_in_line

    def find_in_line(claimed, line, floor):
        return right(claimed, line, claimed.generation)

    patch.setattr(claims_of_keys, "find_in_line", find_in_line)


MUTANTS = {
    claims_stop_at_their_generation: "claims beside force",
    decided_once: "rebase beside commits",
    copies_keep_their_operation: "rebase beside commits",
    any_head_may_be_left_behind: "fast-forward beside commits",
    objects_after_the_swap: "rebases against each other, servers that die",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(mutant, monkeypatch):
    mutant(monkeypatch)
    found = find_violation([SCENARIOS[MUTANTS[mutant]]], MUTANT_SCHEDULES)
    print(f"{mutant.__name__}: found in schedule {found.seed} of {found.scenario}")
