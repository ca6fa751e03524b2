"""Events are true, in order and complete under every schedule tried; mutants are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.events.order import ChangeOrder
from lochan.kernel.publish import Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kv.store import Lost
from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.event_scenarios import SCENARIOS
from tests.sim.mutants import find_violation

SCHEDULES = counted(250, 2_500)
MUTANT_SCHEDULES_MAX = 2_000
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_events_are_true_ordered_and_complete(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES


def reported_before_the_swap(patch: pytest.MonkeyPatch) -> None:
    right = Publisher._write_of

    def write_of(self, chain):
        begun = right(self, chain)
        self._report(begun)
        return begun

    patch.setattr(Publisher, "_write_of", write_of)


def reported_on_conflict(patch: pytest.MonkeyPatch) -> None:
    right = Publisher._ended

    def ended(self, begun, outcome):
        if isinstance(outcome, Lost):
            self._report(begun)
        return right(self, begun, outcome)

    patch.setattr(Publisher, "_ended", ended)


def unknown_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    right = Publisher._ended

    def ended(self, begun, outcome):
        if outcome is not None:
            return right(self, begun, outcome)
        observer, self.context.observer = self.context.observer, None
        try:
            return right(self, begun, outcome)
        finally:
            self.context.observer = observer

    patch.setattr(Publisher, "_ended", ended)


def recovery_without_event(patch: pytest.MonkeyPatch) -> None:
    right = ReferenceIndex.find

    def find(self, name):
        observer, self._context.observer = self._context.observer, None
        try:
            return right(self, name)
        finally:
            self._context.observer = observer

    patch.setattr(ReferenceIndex, "find", find)


def order_of_reports(patch: pytest.MonkeyPatch) -> None:
    def add(self, change):
        self._pass_on(change)

    patch.setattr(ChangeOrder, "add", add)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], list[str]] = {
    reported_before_the_swap: ["events of commits"],
    reported_on_conflict: ["events of commits", "events and conflicts"],
    unknown_is_not_reported: ["events of commits"],
    recovery_without_event: ["events of half-done steps"],
    order_of_reports: ["commits and moves of one server", "created again"],
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds_the_mutant(mutant, monkeypatch):
    mutant(monkeypatch)
    find_violation([BY_NAME[name] for name in MUTANTS[mutant]], MUTANT_SCHEDULES_MAX)
