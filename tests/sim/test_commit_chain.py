"""After an unknown outcome only one policy neither repeats nor loses a commit."""

from __future__ import annotations

import pytest

from lochan.testing.sim import Faults, Violation, exhaust, explore
from tests.sim.chain import (
    committing,
    look_at_the_head,
    resend_then_walk,
    retry_as_lost,
    walk_only,
)

LOST = Faults(lost_reply=0.15, most=1)
LATE = Faults(late=0.15, most=1)
ALL = Faults(
    lost_reply=0.08,
    late=0.08,
    not_applied=0.05,
    crash_before=0.02,
    crash_after=0.02,
    clock_jump=0.01,
    most=3,
)


@pytest.mark.parametrize(
    ("policy", "faults"),
    [
        (retry_as_lost, LOST),
        (look_at_the_head, LOST),
        (retry_as_lost, LATE),
        (look_at_the_head, LATE),
        (walk_only, LATE),
    ],
    ids=lambda one: getattr(one, "__name__", "late" if one is LATE else "lost"),
)
def test_wrong_policies_repeat_a_commit(policy, faults):
    with pytest.raises(Violation) as found:
        explore(committing(policy, faults=faults), 500)
    assert found.value.invariant == "no commit twice"
    print(f"{found.value.scenario}: schedule {found.value.seed}, {found.value.trace}")


def test_walking_is_enough_when_replies_are_lost_but_nothing_is_late():
    assert explore(committing(walk_only, faults=LOST), 2_000).lost_replies > 500


def test_without_faults_even_the_wrong_policies_hold():
    for policy in (retry_as_lost, look_at_the_head, walk_only):
        explore(committing(policy, faults=Faults()), 300)


@pytest.mark.parametrize("atomic", [True, False])
def test_sending_again_and_walking_holds_under_all_faults(atomic):
    scenario = committing(resend_then_walk, each=2, faults=ALL, atomic_apply=atomic)
    report = explore(scenario, 3_000)
    print(report.line())
    assert report.distinct > 1_500
    for count in (report.lost_replies, report.late, report.not_applied, report.crashes):
        assert count > 500
    assert report.clock_jumps > 50
    assert report.rechecked == 150


def test_two_committers_are_right_in_every_schedule_with_one_unknown():
    for faults in (LOST, LATE):
        report = exhaust(committing(resend_then_walk, committers=2, each=2, faults=faults))
        print(report.line())
        assert report.complete
        assert report.schedules > 300


@pytest.mark.parametrize("policy", [look_at_the_head, walk_only])
def test_enumeration_finds_the_wrong_policies_too(policy):
    with pytest.raises(Violation):
        exhaust(committing(policy, committers=2, faults=Faults(lost_reply=1, late=1, most=1)))
