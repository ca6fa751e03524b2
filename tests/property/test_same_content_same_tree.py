"""The same content gives the same tree, whatever its history: over 10,000 comparisons in `deep`."""

from __future__ import annotations

import pytest

from tests.profile import counted
from tests.property import tree_runs
from tests.property.tree_runs import TreeRun, hard_one_in

RUNS = counted(2, 15)
BATCHES = 40
HARD_ONE_IN = [50_000, 200, 30, 6]
KINDS_OF_TREES = [
    (tree_runs.sequential, tree_runs.table_values, 5_000),
    (tree_runs.scattered, tree_runs.varied_values, 1_000),
    (tree_runs.shared_prefixes, tree_runs.table_values, 2_500),
    (tree_runs.nested_prefixes, tree_runs.varied_values, 400),
    (tree_runs.clustered, tree_runs.varied_values, 2_500),
    (tree_runs.long_keys, tree_runs.huge_values, 200),
]


def test_as_many_comparisons_are_made_as_promised():
    assert len(HARD_ONE_IN) * len(KINDS_OF_TREES) * RUNS * BATCHES >= counted(1_000, 10_000)


@pytest.mark.parametrize("one_in", HARD_ONE_IN)
@pytest.mark.parametrize(("keys", "values", "first_batch_max"), KINDS_OF_TREES)
def test_every_batch_leaves_the_tree_that_a_fresh_build_makes(
    monkeypatch, keys, values, first_batch_max, one_in
):
    hard_one_in(monkeypatch, one_in)
    compared = 0
    for number in range(RUNS):
        run = TreeRun(number, keys, values, first_batch_max)
        for _ in range(BATCHES):
            run.step()
            compared += 1
    assert compared == RUNS * BATCHES
