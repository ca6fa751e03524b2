"""Planted faults in preparations and grafts; the explorer must find each.

A mutant is patched into the real code; the scenario named beside it must notice it within 500
schedules. `tests/property/test_grafts.py` and `tests/kernel/test_preparation.py` have those that
need contents or incarnations which no scenario has.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.preparation import Preparation, _NodeStorage
from lochan.kernel.reliance import Reliance
from tests.sim.graft_scenarios import (
    BESIDE,
    BESIDE_OTHERS,
    CONTENTS,
    CONTENTS_TWO,
    DEATHS,
    KEYED,
    SCENARIOS,
)
from tests.sim.mutants import find_violation

SCHEDULES_MAX = 500
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

Patch = Callable[[pytest.MonkeyPatch], None]


def keys_that_were_read_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reliance, "add_keys", lambda *_: None)


def ranges_and_keys_count_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reliance, "is_touched", lambda *_: False)


def removals_of_the_head_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = Preparation._grafts

    def grafts(self, moved):
        return right(self, [one for one in moved if one.right is not None])

    patch.setattr(Preparation, "_grafts", grafts)


def all_that_the_head_changed_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = Preparation._grafts
    patch.setattr(Preparation, "_grafts", lambda self, _: right(self, []))


def differences_end_at_the_bound(patch: pytest.MonkeyPatch) -> None:
    """Too many differences: the first ones are taken for all."""
    right = Preparation._find_moved

    def find_moved(self, head, differences_max):
        moved = right(self, head, None)
        return moved if moved is None else moved[:differences_max]

    patch.setattr(Preparation, "_find_moved", find_moved)


def trees_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    def store(self, _, nodes):
        self._context.nodes.remember(nodes)

    patch.setattr(_NodeStorage, "store", store)


def values_are_stored_without_trees(patch: pytest.MonkeyPatch) -> None:
    """After catching up, only the first trees are stored."""
    right = _NodeStorage.store

    def store(self, values, nodes):
        if values:
            return right(self, values, nodes)
        return self._context.nodes.remember(nodes)

    patch.setattr(_NodeStorage, "store", store)


def outdated_preparations_are_answered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Preparation, "is_outdated", property(lambda _: False, lambda *_: None), raising=False
    )


def catching_up_keeps_the_old_head(patch: pytest.MonkeyPatch) -> None:
    """What was put into the trees is put into them again, and what came back is lost."""
    right = Preparation._catch_up

    def catch_up(self, head, moved):
        before = self._prepared
        right(self, head, moved)
        if self._prepared is not None:
            self._prepared = msgspec.structs.replace(self._prepared, view=before.view)

    patch.setattr(Preparation, "_catch_up", catch_up)


def claims_are_not_searched_for_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimedProposal, "_is_absent", lambda *_: True)


def namespaces_are_not_looked_up_again(patch: pytest.MonkeyPatch) -> None:
    """The rule of parents is that of the head of the preparation."""
    right = Reliance.add_keys

    def add_keys(self, keys):
        right(self, [key for key in keys if key not in (b"tn", b"tm")])

    patch.setattr(Reliance, "add_keys", add_keys)


def targets_are_those_of_the_preparation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reliance, "add_check", lambda *_: None)


MUTANTS: dict[Patch, str] = {
    keys_that_were_read_are_not_compared: BESIDE,
    ranges_and_keys_count_for_nothing: CONTENTS,
    removals_of_the_head_are_forgotten: BESIDE,
    all_that_the_head_changed_is_forgotten: BESIDE_OTHERS,
    differences_end_at_the_bound: BESIDE,
    trees_are_not_stored: BESIDE,
    values_are_stored_without_trees: CONTENTS_TWO,
    outdated_preparations_are_answered: DEATHS,
    catching_up_keeps_the_old_head: BESIDE_OTHERS,
    claims_are_not_searched_for_again: KEYED,
    namespaces_are_not_looked_up_again: CONTENTS,
    targets_are_those_of_the_preparation: CONTENTS,
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
