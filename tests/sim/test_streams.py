"""Followers miss nothing and get nothing twice, under every schedule tried; mutants are found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.codec.cursors import ReplayPosition
from lochan.events import feeds, past_changes
from lochan.events.detector import place_of_index
from lochan.events.feeds import Feed
from lochan.events.past_changes import PastChanges
from lochan.events.replay import position_of, replay
from lochan.testing.sim import explore
from tests.profile import counted
from tests.sim.mutants import find_violation
from tests.sim.stream_scenarios import SCENARIOS

SCHEDULES = counted(200, 2_000)
MUTANT_SCHEDULES_MAX = 2_000
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_followers_miss_nothing_and_get_nothing_twice(scenario, record_property):
    report = explore(scenario, schedules=SCHEDULES)
    record_property("counted", report.line())
    assert report.schedules == SCHEDULES


def a_feed_that_does_not_read_before_a_token(patch: pytest.MonkeyPatch) -> None:
    def begin(self, feed, start):
        self._feed, self._start = feed, start
        self.number, self.target = feed.place()

    patch.setattr(PastChanges, "__init__", begin)


def a_place_that_is_taken_before_the_feed_reads(patch: pytest.MonkeyPatch) -> None:
    def begin(self, feed, start):
        self._feed, self._start = feed, start
        self.number, _ = feed.place()
        feed.turn(whole=True)
        _, self.target = feed.place()

    patch.setattr(PastChanges, "__init__", begin)


def a_past_that_goes_on_to_the_present(patch: pytest.MonkeyPatch) -> None:
    def of(self, name, delivered, target):
        context = self._feed.context
        found = context.references.fetch(name)
        row = None if found is None else found.row
        for one in replay(context, name, delivered.position(name), row):
            after = delivered.moved(name, one.after)
            yield past_changes.PastChange(name, one.change, delivered, after, "")
            delivered = after

    patch.setattr(PastChanges, "_of", of)


def an_index_that_moves_before_its_names_are_read(patch: pytest.MonkeyPatch) -> None:
    right = Feed._read

    def read(self, names):
        if self.scope.is_pattern:
            head = self._index.head()
            self._take_index(head, place_of_index(head), set(names))
        right(self, names)

    patch.setattr(Feed, "_read", read)


def a_creation_that_is_not_finished_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def present(element, row):
        beyond = ReplayPosition(element.incarnation, 1 << 40, b"")
        return beyond if row is None else position_of(row)

    patch.setattr(feeds, "_present_position", present)


def a_position_that_is_behind_more_than_its_change(patch: pytest.MonkeyPatch) -> None:
    right = Feed._add

    def add(self, name, replayed):
        found = self.context.references.fetch(name)
        assert found is not None
        right(self, name, msgspec.structs.replace(replayed, after=position_of(found.row)))

    patch.setattr(Feed, "_add", add)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], list[str]] = {
    a_feed_that_does_not_read_before_a_token: ["a client that changes servers"],
    a_place_that_is_taken_before_the_feed_reads: [
        "one reference, two servers",
        "a client that changes servers",
    ],
    a_past_that_goes_on_to_the_present: [
        "one reference, two servers",
        "a client that changes servers",
    ],
    an_index_that_moves_before_its_names_are_read: ["a pattern, created and deleted"],
    a_creation_that_is_not_finished_is_forgotten: ["a server that ends"],
    a_position_that_is_behind_more_than_its_change: ["one reference, two servers"],
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds_the_mutant(mutant, monkeypatch):
    mutant(monkeypatch)
    find_violation([BY_NAME[name] for name in MUTANTS[mutant]], MUTANT_SCHEDULES_MAX)
