"""Small scopes of the kernel, enumerated completely: every order of conflicting calls and fault."""

from __future__ import annotations

import pytest

from lochan.testing.sim import Faults, exhaust
from tests.profile import counted
from tests.sim.kernel_scenarios import (
    CHECKS,
    MAIN,
    NAMES,
    assigns,
    claims,
    claims_are_done_once,
    commits,
    creates,
    deletes,
    in_turn,
    looks,
    merges,
    scenario,
)

LOST_OR_NOT = Faults(lost_reply=1, late=1, not_applied=1, most=1)

SCOPES = [
    scenario(
        "two committers, one reply lost",
        {"s1": [commits("a", 2)], "s2": [commits("b", 2)]},
        faults=Faults(lost_reply=1, not_applied=1, most=1),
    ),
    scenario(
        "a commit beside an assignment",
        {"s1": [commits("a", 3)], "s2": [assigns(MAIN)]},
        faults=LOST_OR_NOT,
    ),
    scenario(
        "create, delete and read of one name",
        {
            "s1": [creates(NAMES[2])],
            "s2": [in_turn(looks(NAMES[2]), deletes(NAMES[2]), looks(NAMES[2]))],
        },
        faults=Faults(lost_reply=1, not_applied=1, most=1),
    ),
    scenario(
        "two creators of one name",
        {"s1": [creates(NAMES[2])], "s2": [creates(NAMES[2])]},
        faults=LOST_OR_NOT,
    ),
    scenario(
        "one key from two servers",
        {"s1": [claims("k", 2)], "s2": [claims("k", 1)]},
        checks={**CHECKS, "claims": claims_are_done_once},
        faults=LOST_OR_NOT,
    ),
    scenario(
        "a merge beside a commit",
        {"s1": [merges], "s2": [commits("b", 2)]},
        faults=LOST_OR_NOT,
    ),
]


@pytest.mark.parametrize("scope", SCOPES[:: counted(2, 1)], ids=lambda scope: scope.name)
def test_a_scope_holds_in_every_schedule_there_is(scope, record_property):
    report = exhaust(scope)
    record_property("counted", report.line())
    assert report.complete
    assert report.schedules >= 1_000
