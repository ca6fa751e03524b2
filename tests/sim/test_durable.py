"""Delivery at least once under the explorer; planted faults are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.events import durable
from lochan.events import replay as replay_module
from lochan.events.cursor import NamePosition, RepositoryCursor
from lochan.events.detector import ChangeDetector
from lochan.events.durable import DurableDelivery
from lochan.events.lease import Lease
from lochan.model.events import GAP
from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.durable_scenarios import SCENARIOS
from tests.sim.mutants import find_violation

SCHEDULES = counted(150, 2_100)
MUTANT_SCHEDULES_MAX = 2_000
BY_NAME = {scenario.name.removeprefix("durable: "): scenario for scenario in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_change_is_delivered_in_order_whatever_fails(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES


def cursor_moved_before_delivery(patch: pytest.MonkeyPatch) -> None:
    begin, right = NamePosition.__init__, replay_module.replay
    present: list[NamePosition] = []

    def noted(self, cursor, name, lease):
        begin(self, cursor, name, lease)
        present[:] = [self]

    def replay(context, name, after, row):
        for one in right(context, name, after, row):
            present[0].note(one.after)
            present[0].store()
            yield one

    patch.setattr(NamePosition, "__init__", noted)
    patch.setattr(durable, "replay", replay)


def lease_kept_after_loss(patch: pytest.MonkeyPatch) -> None:
    right = Lease.hold

    def hold(self):
        return self.is_held or right(self)

    patch.setattr(Lease, "hold", hold)


def lease_taken_from_an_owner_that_renews_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "_has_ended", lambda self, found: True)


def deleted_references_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = RepositoryCursor.fetch_row

    def fetch_row(self, name):
        row = right(self, name)
        return None if row is not None and row.deleted else row

    patch.setattr(RepositoryCursor, "fetch_row", fetch_row)


def recovery_without_event(patch: pytest.MonkeyPatch) -> None:
    """What is half done when it is found counts as delivered."""
    right = NamePosition.store

    def store(self):
        if self._is_new and not self.noted:
            self._is_new = False
        right(self)

    def fetch_row(self, name):
        found = self.context.references.fetch(name)
        return None if found is None else found.row

    patch.setattr(NamePosition, "store", store)
    patch.setattr(RepositoryCursor, "fetch_row", fetch_row)


def index_read_after_the_names(patch: pytest.MonkeyPatch) -> None:
    right = RepositoryCursor.advance

    def advance(self, place, complete_us, fence, step_us):
        right(self, self.detector.place(), complete_us, fence, step_us)

    patch.setattr(RepositoryCursor, "advance", advance)


def commits_of_the_index_not_searched(patch: pytest.MonkeyPatch) -> None:
    """Rows alone do not show what was created and deleted in the meantime."""
    patch.setattr(ChangeDetector, "touched", lambda self, known, now: [])


def gap_found_before_the_present_is_written(patch: pytest.MonkeyPatch) -> None:
    right, find = RepositoryCursor.present, RepositoryCursor.find_missed

    def present(self, fence):
        if self.has_row:
            earlier = find(self, self.detector.place(), lambda _: True)
            self.find_missed = lambda place, accepts: earlier
        return right(self, fence)

    patch.setattr(RepositoryCursor, "present", present)


def gap_left_out(patch: pytest.MonkeyPatch) -> None:
    right = DurableDelivery._deliver

    def deliver(self, event, position):
        if event.type != GAP:
            yield from right(self, event, position)

    patch.setattr(DurableDelivery, "_deliver", deliver)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], list[str]] = {
    cursor_moved_before_delivery: ["commits, moves and a crash", "takeover"],
    lease_kept_after_loss: ["takeover"],
    lease_taken_from_an_owner_that_renews_it: ["commits of two servers"],
    deleted_references_forgotten: ["created, deleted, created"],
    recovery_without_event: ["half-done steps and crashes"],
    index_read_after_the_names: ["created, deleted, created", "half-done steps and crashes"],
    gap_found_before_the_present_is_written: ["a cursor that is too old"],
    gap_left_out: ["a cursor that is too old"],
    commits_of_the_index_not_searched: ["created, deleted, created"],
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds_the_mutant(mutant, monkeypatch):
    mutant(monkeypatch)
    find_violation([BY_NAME[name] for name in MUTANTS[mutant]], MUTANT_SCHEDULES_MAX)
