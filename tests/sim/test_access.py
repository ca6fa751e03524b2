"""Users, groups, policies and credentials on several servers: races, lost replies, crashes."""

from __future__ import annotations

import pytest

from lochan.testing.sim import NO_FAULTS, Scenario, crash_sweep, explore
from tests.profile import counted
from tests.sim import access_reads, access_scenarios, access_setup
from tests.sim.access_scenarios import Act, does, scenario
from tests.sim.access_setup import looks, manages, sets_up

SCENARIOS = {
    one.name: one
    for one in (
        *access_scenarios.SCENARIOS,
        *access_setup.SCENARIOS,
        *access_reads.SCENARIOS,
    )
}
SCHEDULES = counted(150, 3_000)

# Of the crashes; it shares no divisor with the number of follow-ups, so all are met.
ONE_IN = counted(5, 1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_access_is_right_under_every_schedule_that_is_tried(name, record_property):
    report = explore(SCENARIOS[name], SCHEDULES)
    record_property("counted", report.line())
    assert report.distinct_with_faults > SCHEDULES // 3
    assert report.lost_replies + report.late + report.crashes > SCHEDULES // 5


OPERATIONS: dict[str, Act] = {
    "create a user": does(("delete_user", "bob"), ("create_user", "bob")),
    "delete a user": does(("delete_user", "alice")),
    "delete a group": does(("delete_group", "g"), ("create_group", "g")),
    "delete a policy": does(("delete_policy", "p"), ("put_policy", "p")),
    "links": does(
        ("add_member", "bob", "g"),
        ("attach", "user", "bob", "p"),
        ("remove_member", "alice", "g"),
        ("detach", "group", "g", "p"),
    ),
    "credentials": does(
        ("add_token", "alice", "t2"),
        ("add_credential", "alice", "t2"),
        ("delete_token", "t1"),
        ("delete_credential", "t1"),
    ),
}

FOLLOW_UPS: dict[str, Act] = {
    "list": does(("list_users",), ("list_groups",), ("list_policies",)),
    "create the same": does(("create_user", "alice"), ("create_group", "g"), ("put_policy", "p")),
    "delete again": does(("delete_user", "alice"), ("delete_group", "g"), ("delete_policy", "p")),
    "link": does(("add_member", "bob", "g"), ("attach", "user", "bob", "p")),
    "look": does(("groups_of", "alice"), ("find_token", "t1"), ("find_token", "t2")),
}


def sweep(one: Scenario, follow_ups: dict[str, Act]) -> int:
    report = crash_sweep(one, follow_ups, late=True, one_in=ONE_IN)
    print(report.line())
    return report.reached


def test_a_crash_at_any_call_leaves_a_directory_that_others_can_go_on_with(record_property):
    reached = sum(
        sweep(scenario(name, {"s1": [act]}, faults=NO_FAULTS), FOLLOW_UPS)
        for name, act in OPERATIONS.items()
    )
    record_property("counted", f"crash sweep of access: {reached} crashes reached")
    assert reached >= counted(150, 800)


def test_a_crash_at_any_call_of_set_up_leaves_nobody_locked_out():
    follow_ups = {
        "the same again": sets_up("root", "token1"),
        "another one": sets_up("oidc:other", "token3"),
        "look": looks,
        "manage": manages,
    }
    one = access_setup.scenario("set-up", {"s1": [sets_up("root", "token1")]}, faults=NO_FAULTS)
    assert sweep(one, follow_ups) >= counted(60, 300)
