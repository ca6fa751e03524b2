"""A server dies at every store call of a use case; the next server can go on."""

from __future__ import annotations

import pytest

from lochan.kernel import claims as claims_room
from lochan.kernel.publish import Publisher
from lochan.service import claims as service_claims
from lochan.service.repository import Repository
from lochan.testing.sim import NO_FAULTS, Violation, crash_sweep
from tests.sim.catalog_checks import (
    half_made_branches_take_commits,
    merges_are_whole,
    references_are_right,
)
from tests.sim.catalog_scenarios import (
    Act,
    assigns,
    comes_and_goes,
    commits_to_one,
    drops_the_namespace,
    in_turn,
    keeps_to_itself,
    makes,
    merges,
    renames,
    scenario,
    sends,
    updates,
)

ON_BRANCHES: dict[str, Act] = {
    "make": makes("a"),
    "make and commit": in_turn(makes("a"), commits_to_one("c", 1)),
    "make, assign": in_turn(makes("a"), assigns("b", "one", "side")),
}
ON_MAIN: dict[str, Act] = {
    "updates": updates("a", 2),
    "a rename": renames("r", ("ns", "t"), ("ns", "u")),
    "a namespace made anew": drops_the_namespace("m", 1),
    "a merge": merges("squash", squash=True),
    "a replay": merges("replay", squash=False),
}
AFTER_BRANCHES: dict[str, Act] = {
    "commit": commits_to_one("after", 1),
    "commit with a key": sends("after", 1, "one"),
    "make": makes("after"),
}
AFTER_MAIN: dict[str, Act] = {
    "update": updates("after", 1),
    "own update": keeps_to_itself("o", ("ns", "o"), 1),
    "create": comes_and_goes("after", 1),
    "merge": merges("again", squash=True),
}


def sweep_branches() -> int:
    checks = {"references": references_are_right, "half made": half_made_branches_take_commits}
    reached = 0
    for name, act in ON_BRANCHES.items():
        dying = scenario(name, {"s1": [act]}, faults=NO_FAULTS, checks=checks)
        reached += crash_sweep(dying, AFTER_BRANCHES).reached
    return reached


def test_a_crash_in_a_use_case_on_branches_leaves_one_that_takes_commits(record_property):
    reached = sweep_branches()
    record_property("counted", f"crash sweep of the catalog's branches: {reached} crashes reached")
    assert reached >= 150


def test_a_crash_in_a_use_case_on_contents_leaves_all_of_it_or_nothing(record_property):
    reached = 0
    for name, act in ON_MAIN.items():
        dying = scenario(name, {"s1": [act]}, faults=NO_FAULTS, checks={"merges": merges_are_whole})
        reached += crash_sweep(dying, AFTER_MAIN, late=True).reached
    record_property("counted", f"crash sweep of the catalog's contents: {reached} crashes reached")
    assert reached >= 200


def publishers_do_not_finish_branches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Repository, "publisher", lambda self, branch: Publisher(self.context, branch))


def claims_do_not_finish_branches(patch: pytest.MonkeyPatch) -> None:
    right = claims_room.claim_on_branch

    def claim(context, request, find=None):
        return right(context, request)

    patch.setattr(service_claims, "claim_on_branch", claim)


@pytest.mark.parametrize(
    "mutant",
    [publishers_do_not_finish_branches, claims_do_not_finish_branches],
    ids=lambda mutant: mutant.__name__,
)
def test_the_sweep_finds(mutant, monkeypatch, record_property):
    mutant(monkeypatch)
    with pytest.raises(Violation) as caught:
        sweep_branches()
    record_property("counted", f"mutant {mutant.__name__}: {caught.value.scenario}")
