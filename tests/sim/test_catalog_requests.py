"""Requests on references with an idempotency key, sent by two servers at once and again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.kernel.references import ReferenceIndex
from lochan.model.references import Reference
from lochan.model.requests import MoveRequest, NewReference
from lochan.model.specs import parse_spec
from lochan.testing.sim import Faults, History, Server, Violation, World, explore
from tests.profile import counted
from tests.sim.catalog_checks import MISHAPS, fresh, moves_of, named
from tests.sim.catalog_scenarios import (
    Act,
    assigns,
    commits_to_one,
    deletes,
    drive,
    in_turn,
    makes,
    scenario,
)

SCHEDULES = counted(50, 500)
SCHEDULES_MAX = 2_000

Ask = Callable[[Server, Call], str]


def assign(server: Server, call: Call) -> str:
    done: Reference = server.app.repository.references.assign(
        call, "side", None, parse_spec("main~1")
    )
    return done.hash


def force(server: Server, call: Call) -> str:
    done = server.app.repository.merges.force(
        call, MoveRequest(branch="side", source=parse_spec("main"))
    )
    return str(done.hash)


def delete(server: Server, call: Call) -> str:
    done: Reference = server.app.repository.references.delete(call, "side", None)
    return done.hash


def make(server: Server, call: Call) -> str:
    new = NewReference(kind="BRANCH", name="side", source=parse_spec("main"))
    return drive(server, lambda one: one.references.create(call, new)).hash


def sends(name: str, ask: Ask, times: int) -> Act:
    """Sends one request again and again; the name is the key and the sender."""

    def send(server: Server, name: str) -> str:
        return ask(server, Call(principal=name, idempotency_key=name, digest=name.encode()))

    def act(server: Server) -> None:
        for _ in range(times):
            server.attempt("asked", send, server, name)

    return act


def requests_are_done_once(world: World, history: History) -> None:
    """One move for each request that was acknowledged, and one answer for all who sent it."""
    moves = moves_of(fresh(world), "side")
    for name in {named(event) for event in history.of("asked")}:
        done = [move for move in moves if move.who == name and move.kind != "commit"]
        assert len(done) <= 1, f"{name} was done {len(done)} times"
        answers = {e.result for e in history.acknowledged("asked") if named(e) == name}
        assert len(answers) <= 1, f"{name} was answered in two ways"
        if answers:
            assert len(done) == 1, f"{name} was acknowledged and is not in the ref-log"
            assert answers == {done[0].new}, f"{name} was answered with another commit"


def repetitions_are_not_refused(world: World, history: History) -> None:
    """Who sends again what was acknowledged hears the same, or of a mishap."""
    done = history.acknowledged("asked")
    for event in history.of("asked"):
        if any(named(one) == named(event) and one.before(event) for one in done):
            assert event.acknowledged or event.outcome in MISHAPS, f"{event} though it was done"


CHECKS = {"requests": requests_are_done_once, "answers": repetitions_are_not_refused}

SCENARIOS = [
    scenario(
        "moves asked for twice",
        {
            "s1": [in_turn(sends("assign", assign, 2), sends("force", force, 1))],
            "s2": [in_turn(sends("assign", assign, 1), sends("force", force, 2))],
            "s3": [assigns("other", "side", "main~1"), makes("x")],
        },
        checks=CHECKS,
        faults=Faults(lost_reply=0.15, late=0.1, not_applied=0.05, most=3),
    ),
    scenario(
        "a branch asked to go twice, and made again",
        {
            "s1": [in_turn(sends("delete", delete, 2), sends("make", make, 1))],
            "s2": [in_turn(sends("delete", delete, 1), sends("make", make, 2))],
            "s3": [in_turn(makes("x"), commits_to_one("c", 1), deletes("y"))],
        },
        checks=CHECKS,
        faults=Faults(lost_reply=0.15, late=0.1, not_applied=0.05, most=3),
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_request_on_references_is_done_once_under_every_schedule(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.distinct >= SCHEDULES * 0.9
    assert report.lost_replies >= SCHEDULES / 5


def earlier_tries_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReferenceIndex, "find_done", lambda *_: None)
    patch.setattr(ReferenceIndex, "_move_of", lambda *_: None)


def any_life_is_meant(patch: pytest.MonkeyPatch) -> None:
    """As it was: a first try that was overtaken took the branch that was made since."""
    right = ReferenceIndex.move

    def move(self, name, decide, who, *, dry_run=False, once=None):
        found = self.find(name)
        if once is not None and found is not None:
            once = msgspec.structs.replace(once, incarnation=found.row.incarnation)
        return right(self, name, decide, who, dry_run=dry_run, once=once)

    patch.setattr(ReferenceIndex, "move", move)


def only_the_present_life_is_looked_at(patch: pytest.MonkeyPatch) -> None:

    def find_done(self, name, operation):
        found = self._context.references.fetch(name)
        if found is None or not found.row.deleted or found.row.operation != operation:
            return None
        return right(self, name, operation)

    right = ReferenceIndex.find_done
    patch.setattr(ReferenceIndex, "find_done", find_done)


MUTANTS = {
    earlier_tries_are_not_looked_for: "moves asked for twice",
    any_life_is_meant: "a branch asked to go twice, and made again",
    only_the_present_life_is_looked_at: "a branch asked to go twice, and made again",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(mutant, monkeypatch, record_property):
    mutant(monkeypatch)
    (scenario,) = [one for one in SCENARIOS if one.name == MUTANTS[mutant]]
    with pytest.raises(Violation) as caught:
        explore(scenario, schedules=SCHEDULES_MAX)
    found = caught.value
    record_property(
        "counted", f"mutant {mutant.__name__}: schedule {found.seed} of {found.scenario}"
    )
