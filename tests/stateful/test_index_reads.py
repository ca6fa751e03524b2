"""Reads of an index agree with plain dictionaries over 30,000 and more random steps in `deep`."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.keys import Universe
from lochan.index import layers, read, spill
from tests.profile import counted
from tests.property.tree_runs import hard_one_in
from tests.stateful.world import World

WORLDS = 16
STEPS = counted(200, 2_000)


def test_as_many_steps_are_made_as_promised():
    assert WORLDS * STEPS >= counted(3_000, 30_000)


@pytest.mark.parametrize("number", range(WORLDS))
def test_reads_agree_with_the_model(monkeypatch, number):
    world = run_world(monkeypatch, number, STEPS)
    assert world.steps == STEPS
    sizes = sorted(len(version.model.elements) for version in world.versions)
    assert sizes[len(sizes) // 2] > 20, "a world of empty versions would promise nothing"
    world.check_nothing_changed()


def run_world(monkeypatch: pytest.MonkeyPatch, number: int, steps: int) -> World:
    random = Random(number)
    hard_one_in(monkeypatch, [50_000, 30, 6, 200][number % 4])
    universe = [Universe.TABLES, Universe.FILES][number // 4 % 2]
    world = World(random, universe, names=[60, 400, 1_200, 4_000][(number + number // 4) % 4])
    world.commit(world.versions[0], world.changes(len(world.names), 0), 4_096)
    for step in range(steps):
        try:
            world.step()
        except BaseException as error:
            error.add_note(f"world {number}, step {step}")
            raise
    return world


def run_all_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(WORLDS):
        run_world(monkeypatch, number, 300)


def removes_are_forgotten_on_spilling(monkeypatch):
    monkeypatch.setattr(spill, "is_remove", lambda _: False)


def removed_elements_are_listed(monkeypatch):
    monkeypatch.setattr(layers, "is_remove", lambda _: False)


def the_first_child_counts_whole(monkeypatch):
    right = read._children_for_page
    monkeypatch.setattr(
        read,
        "_children_for_page",
        lambda nodes, start, end, limit: right(nodes, start, end, max(1, limit // 40)),
    )


def a_page_stops_at_the_node_of_its_start(monkeypatch):
    right = read._children_for_page
    monkeypatch.setattr(read, "_children_for_page", lambda *arguments: right(*arguments)[:1])


def recent_elements_do_not_hide_the_tree(monkeypatch):
    right = read.read_page
    monkeypatch.setattr(
        layers,
        "read_tree_page",
        lambda source, root, start, end, limit: right(source, root, start, end, 1 + limit // 3),
    )


def own_elements_are_dropped_on_spilling(monkeypatch):
    monkeypatch.setattr(spill, "_node_of", lambda *_: None)


@pytest.mark.parametrize(
    "mutate",
    [
        removes_are_forgotten_on_spilling,
        removed_elements_are_listed,
        the_first_child_counts_whole,
        a_page_stops_at_the_node_of_its_start,
        recent_elements_do_not_hide_the_tree,
        own_elements_are_dropped_on_spilling,
    ],
    ids=lambda mutate: mutate.__name__,
)
def test_a_wrong_read_or_spill_is_noticed(monkeypatch, mutate):
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        run_all_worlds(monkeypatch)
