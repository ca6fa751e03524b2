"""Servers sweep expired branches while others delete them, make them again and commit to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import Conflict, ReferenceNotFound
from lochan.base.ids import InstanceId, ObjId
from lochan.base.names import RefName
from lochan.codec.rows import Description
from lochan.kernel.provenance import SWEEP
from lochan.kernel.references import ReferenceIndex
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.repository import Repository
from lochan.testing.invariants import check_references
from lochan.testing.sim import Faults, History, Server, World, explore
from tests.profile import counted
from tests.sim.catalog_checks import fresh, moves_of
from tests.sim.catalog_scenarios import Act, commits_to_one, drive, in_turn, scenario, set_up
from tests.sim.kernel_scenarios import parts_of
from tests.sim.mutants import find_violation

SCHEDULES = counted(200, 3_000)
MUTANT_SCHEDULES = 2_000
MINUTES_US = 60 * 1_000_000


def with_an_expired_branch(server: Server) -> tuple[InstanceId, Description]:
    """The usual repository, and a branch `one` whose time was over some minutes ago."""
    prepared = set_up(server)
    server.clock.jump_us(-10 * MINUTES_US)
    repository = Repository(parts_of(server, prepared))
    soon = server.clock.now_us() + MINUTES_US
    new = NewReference(kind="BRANCH", name="one", source=parse_spec("main"), expires_us=soon)
    made = repository.references.create(Call(), new)
    (settled,) = repository.publisher(made.branch).publish([made.proposal])
    made.finish(settled)
    server.clock.jump_us(10 * MINUTES_US)
    return prepared


def sweeps(server: Server) -> None:
    server.attempt("sweep", lambda _: server.app.repository.sweep_references(b"", 100), server)


def deletes(name: str) -> Act:
    def delete(server: Server, who: str) -> Any:
        return server.app.repository.references.delete(Call(principal=who), "one", None)

    return lambda server: server.attempt("delete", delete, server, name)


def makes(name: str) -> Act:
    """Makes the branch again where it was, without an end."""

    def make(server: Server, who: str) -> Any:
        new = NewReference(kind="BRANCH", name="one", source=parse_spec("main"))
        return drive(server, lambda one: one.references.create(Call(principal=who), new))

    return lambda server: server.attempt("make", make, server, name)


def only_the_expired_incarnation_is_swept(world: World, history: History) -> None:
    """A branch that was made again is there, unless a request that may has deleted it."""
    repository = fresh(world)
    repository.references.list(Call())
    check_references(repository.context)
    moves = moves_of(repository, "one")
    expired = min(move.incarnation for move in moves)
    for move in moves:
        if move.kind == "delete" and move.who == SWEEP.name:
            assert move.incarnation == expired, "a branch without an end was swept"
    swept = [move for move in moves if move.kind == "delete" and move.who == SWEEP.name]
    assert len(swept) <= 1, "one incarnation was swept twice"


CHECKS = {"sweeps": only_the_expired_incarnation_is_swept}

SCENARIO = replace(
    scenario(
        "expired branches are swept while they are made again",
        {
            "s1": [sweeps],
            "s2": [in_turn(deletes("a"), makes("b"), commits_to_one("c", 1))],
            "s3": [in_turn(sweeps, makes("d"))],
        },
        checks=CHECKS,
        faults=Faults(lost_reply=0.12, late=0.1, not_applied=0.03, most=3),
    ),
    setup=with_an_expired_branch,
)


def test_a_branch_that_was_made_again_is_never_swept(record_property):
    report = explore(SCENARIO, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES
    assert report.lost_replies > SCHEDULES / 20


def sweeps_by_name_and_hash(patch: pytest.MonkeyPatch) -> None:
    """As it was: one that was made again at the same hash, without an end, died."""

    def delete_expired(self, seen, before_us):
        try:
            self.delete(RefName(seen.name), ObjId(seen.pointer), SWEEP)
        except (Conflict, ReferenceNotFound):
            return False
        return True

    patch.setattr(ReferenceIndex, "delete_expired", delete_expired)


def test_the_explorer_finds_a_sweep_by_name_and_hash(monkeypatch, record_property):
    sweeps_by_name_and_hash(monkeypatch)
    found = find_violation([SCENARIO], MUTANT_SCHEDULES)
    record_property("counted", f"sweep by name and hash: schedule {found.seed} of {found.scenario}")
