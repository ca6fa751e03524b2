"""Planted faults in the catalog and in what its publishers remember; the explorer must find each.

A mutant is patched into the real code; the scenario named beside it must notice it within 2,000
schedules. A scenario that does not notice its mutant would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.base.ids import ObjId
from lochan.catalog import commit as commit_room
from lochan.catalog import merge as merge_room
from lochan.catalog.commit import CatalogCommit
from lochan.catalog.merge import CatalogMerge
from lochan.kernel import claims
from lochan.kernel.build import Head
from lochan.kernel.plan import ANY
from lochan.kernel.publish import Publisher
from lochan.kernel.recent import Recent
from lochan.service import claims as service_claims
from lochan.service.claims import Claims
from lochan.service.references import References
from tests.sim.catalog_scenarios import SCENARIOS
from tests.sim.mutants import find_violation

SCHEDULES_MAX = 2_000
BY_NAME = {one.name: one for one in SCENARIOS}

Patch = Callable[[pytest.MonkeyPatch], None]

UPDATES = "stale updates of one table"
HELD = "stale updates on held rows"
RELYING = "tables that rely on each other"
NAMESPACES = "tables come while their namespace goes"
RENAMES = "a rename against updates"
MERGES = "merges of a branch beside commits"
REQUESTS = "one request from two servers"
BRANCHES = "a branch is made, moved and deleted beside its commits"
MERGES_AND_NAMESPACES = "merges of a branch whose namespace goes"


def recent_forgets_what_was_touched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recent, "last_touched", lambda *_: 0)


def recent_takes_any_commit(patch: pytest.MonkeyPatch) -> None:
    right = Recent.add

    def add(self, view):
        self.head = view.parent
        right(self, view)

    patch.setattr(Recent, "add", add)


def recent_is_used_though_the_head_moved(patch: pytest.MonkeyPatch) -> None:
    right = Publisher._plan

    def plan(self, row, proposals, recent, reach):
        if recent is None:
            return right(self, row, proposals, recent, reach)
        head, recent.head = recent.head, ObjId(row.row.pointer)
        try:
            return right(self, row, proposals, recent, reach)
        finally:
            recent.head = head

    patch.setattr(Publisher, "_plan", plan)


def recent_is_used_though_a_held_row_moved(patch: pytest.MonkeyPatch) -> None:
    recent_is_used_though_the_head_moved(patch)


def recent_keeps_what_a_commit_touched(patch: pytest.MonkeyPatch) -> None:
    right = Recent.add

    def add(self, view):
        kept = self._steady.copy()
        right(self, view)
        self._steady = kept

    patch.setattr(Recent, "add", add)


def expectation_is_taken_from_the_head(patch: pytest.MonkeyPatch) -> None:
    def look(self, head):
        current = head.find(self.keys)
        return current, current

    patch.setattr(CatalogCommit, "_look", look)


def current_is_that_of_the_first_attempt(patch: pytest.MonkeyPatch) -> None:
    right = CatalogCommit._look

    def look(self, head):
        if not hasattr(self, "looked"):
            self.looked = right(self, head)
        return self.looked

    patch.setattr(CatalogCommit, "_look", look)


def current_is_that_of_the_published_head(patch: pytest.MonkeyPatch) -> None:
    """Forgets that others of the same chain come before."""
    right = CatalogCommit._look

    def look(self, head):
        return right(self, Head(head.builder.base, head.builder, head.row))

    patch.setattr(CatalogCommit, "_look", look)


def parents_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_room, "check_parents", lambda *_: [])


def namespaces_go_though_they_are_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_room, "check_left_empty", lambda *_: [])


def unchanged_is_ignored(patch: pytest.MonkeyPatch) -> None:
    right = CatalogCommit.plan

    def plan(self, head):
        relied, self._relied = self._relied, {}
        try:
            return right(self, head)
        finally:
            self._relied = relied

    patch.setattr(CatalogCommit, "plan", plan)


def deletes_expect_nothing(patch: pytest.MonkeyPatch) -> None:
    """Takes a key away whatever it holds by now."""
    right = CatalogCommit._look

    def look(self, head):
        before, current = right(self, head)
        return {**before, **{key: current[key] for key in self._deletes}}, current

    patch.setattr(CatalogCommit, "_look", look)


def idempotency_is_not_passed_on(patch: pytest.MonkeyPatch) -> None:
    right = Claims.write

    def write(self, target, *rest, **more):
        call = msgspec.structs.replace(target.call, idempotency_key=None)
        return right(self, msgspec.structs.replace(target, call=call), *rest, **more)

    patch.setattr(Claims, "write", write)


def claims_look_at_the_present_line_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "moves_since", lambda *_: [])


def repeated_answers_name_the_head(patch: pytest.MonkeyPatch) -> None:
    """Answers a repetition with wherever the branch is by now."""
    patch.setattr(Claims, "_find_earlier", lambda *_: None)

    def finish_claimed(self, target, write, claim, claimed, earlier, settled):
        return service_claims._finish(write, settled)

    patch.setattr(Claims, "_finish_claimed", finish_claimed)


def merges_are_planned_once(patch: pytest.MonkeyPatch) -> None:
    right = CatalogMerge.plan

    def plan(self, head):
        if not hasattr(self, "planned"):
            self.planned = [
                msgspec.structs.replace(
                    one,
                    operations=[msgspec.structs.replace(op, expected=ANY) for op in one.operations],
                )
                for one in right(self, head)
            ]
        return self.planned

    patch.setattr(CatalogMerge, "plan", plan)


def values_of_the_chain_are_not_at_hand(patch: pytest.MonkeyPatch) -> None:
    """As it was: a conflict with a commit of the same chain was reported as Corrupt."""
    patch.setattr(Head, "unpublished", property(lambda _: {}))


def assignments_expect_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(References, "_checked", lambda *_: lambda row: None)


def merges_skip_the_rules_of_namespaces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge_room, "_check_namespaces", lambda *_: None)


MUTANTS: dict[Patch, str] = {
    recent_forgets_what_was_touched: UPDATES,
    recent_takes_any_commit: UPDATES,
    recent_is_used_though_the_head_moved: UPDATES,
    recent_is_used_though_a_held_row_moved: HELD,
    recent_keeps_what_a_commit_touched: NAMESPACES,
    expectation_is_taken_from_the_head: UPDATES,
    current_is_that_of_the_first_attempt: UPDATES,
    current_is_that_of_the_published_head: HELD,
    parents_are_not_checked: NAMESPACES,
    namespaces_go_though_they_are_full: NAMESPACES,
    unchanged_is_ignored: RELYING,
    deletes_expect_nothing: RENAMES,
    idempotency_is_not_passed_on: REQUESTS,
    claims_look_at_the_present_line_only: REQUESTS,
    repeated_answers_name_the_head: REQUESTS,
    merges_are_planned_once: MERGES,
    merges_skip_the_rules_of_namespaces: MERGES_AND_NAMESPACES,
    values_of_the_chain_are_not_at_hand: HELD,
    assignments_expect_nothing: BRANCHES,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(
    mutant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    mutant(monkeypatch)
    found = find_violation([BY_NAME[MUTANTS[mutant]]], SCHEDULES_MAX)
    record_property(
        "counted", f"mutant {mutant.__name__}: schedule {found.seed} of {found.scenario}"
    )
