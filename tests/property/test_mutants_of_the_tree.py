"""Deliberately wrong versions of the tree, each of which the random runs must notice."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.base.errors import LochanError
from lochan.base.limits.storage import NODE_RAW_BYTES_CAP
from lochan.index import boundary, difference, edit, inplace, recut
from lochan.index.difference import diff_trees
from lochan.index.node import Node, build_node, items_of
from lochan.index.source import CachedNodes
from tests.property import tree_runs
from tests.property.tree_runs import TreeRun, hard_one_in

RUNS_MAX = 40
BATCHES = 40

Patch = Callable[[pytest.MonkeyPatch], None]


def any_insert_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inplace, "_may_insert", lambda *_: True)


def any_delete_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inplace, "_may_delete", lambda *_: True)


def prefix_is_not_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = inplace._may_delete

    def careless(rule, level, prefix, suffixes, at):
        inside = 1 if at == 0 and len(suffixes) > 2 else at
        return right(rule, level, prefix, suffixes, inside)

    monkeypatch.setattr(inplace, "_may_delete", careless)


def no_element_needs_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    known = bytearray([recut._NOT_EAGER] * len(recut._KNOWN_BY_POSITION))
    monkeypatch.setattr(recut, "_KNOWN_BY_POSITION", known)


def the_next_node_is_not_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit._Edit, "_load_next", lambda *_: None)


def single_children_stay_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        edit._Edit, "_collapse", lambda self, _, root: edit.Edited(root, list(self._made))
    )


def the_cache_hands_out_a_changed_node(monkeypatch: pytest.MonkeyPatch) -> None:
    right = CachedNodes.load_nodes

    def careless(self, ids):
        nodes = right(self, ids)
        return [shortened(node) if len(node.suffixes) == 37 else node for node in nodes]

    monkeypatch.setattr(CachedNodes, "load_nodes", careless)


def shortened(node: Node) -> Node:
    items = list(items_of(node))[:-1]
    width = node.widths if isinstance(node.widths, int) else None
    return build_node(node.level, [key for key, _ in items], [value for _, value in items], width)


@pytest.mark.parametrize(
    "mutate",
    [
        any_insert_fits,
        any_delete_fits,
        prefix_is_not_recomputed,
        no_element_needs_a_second_look,
        the_next_node_is_not_pulled,
        single_children_stay_roots,
        the_cache_hands_out_a_changed_node,
    ],
    ids=lambda mutate: mutate.__name__,
)
def test_a_wrong_edit_is_noticed(monkeypatch, mutate: Patch):
    mutate(monkeypatch)
    hard_one_in(monkeypatch, 200)
    with pytest.raises((AssertionError, LochanError, IndexError, KeyError)):
        run_until_noticed(tree_runs.shared_prefixes, tree_runs.table_values, 1_000)


def test_a_cut_that_looks_forward_is_noticed(monkeypatch):
    """Before the element that would reach the cap, instead of after the one that reaches it."""
    right_end = boundary._cap_end
    right_at = recut.Run._cap_at

    def end_before(sums, start):
        end = right_end(sums, start)
        return max(start + 1, end - 1) if end < len(sums) else end

    def at_before(self, start):
        at = right_at(self, start)
        return max(start, at - 1) if at < len(self.keys) else at

    monkeypatch.setattr(boundary, "_cap_end", end_before)
    monkeypatch.setattr(recut.Run, "_cap_at", at_before)
    with pytest.raises(AssertionError, match="another root"):
        run_until_noticed(tree_runs.long_keys, tree_runs.huge_values, 200)


def test_a_cap_that_only_builds_know_is_noticed(monkeypatch):
    monkeypatch.setattr(recut.Run, "_cap_at", lambda self, _: len(self.keys))
    with pytest.raises(AssertionError, match="another root"):
        run_until_noticed(tree_runs.long_keys, tree_runs.huge_values, 200)


def test_a_cap_that_edits_in_place_forget_is_noticed(monkeypatch):
    monkeypatch.setattr(inplace, "NODE_RAW_BYTES_CAP", 2 * NODE_RAW_BYTES_CAP)
    with pytest.raises(AssertionError, match="another root"):
        run_until_noticed(tree_runs.long_keys, tree_runs.huge_values, 200)


def test_a_difference_that_skips_by_last_key_is_noticed(monkeypatch):
    def without_same_name(stretch):
        common = {name for name, _ in stretch.lefts} & {name for name, _ in stretch.rights}
        return msgspec.structs.replace(
            stretch,
            lefts=[ref for ref in stretch.lefts if ref[0] not in common],
            rights=[ref for ref in stretch.rights if ref[0] not in common],
        )

    def compare_all() -> None:
        run = TreeRun(1, tree_runs.shared_prefixes, tree_runs.table_values, 1_000)
        for _ in range(BATCHES):
            before, root = dict(run.content), run.root
            run.step()
            after = run.content
            found = [change.key for change in diff_trees(run.source, root, run.root)]
            keys = before.keys() | after.keys()
            assert found == sorted(key for key in keys if before.get(key) != after.get(key))

    compare_all()
    monkeypatch.setattr(difference, "_without_equal", without_same_name)
    with pytest.raises(AssertionError):
        compare_all()


def run_until_noticed(keys, values, first_batch_max: int) -> None:
    for number in range(RUNS_MAX):
        run = TreeRun(number, keys, values, first_batch_max)
        for _ in range(BATCHES):
            run.step()
