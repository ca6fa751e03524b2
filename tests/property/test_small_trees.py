"""Trees of few keys, as Hypothesis finds them: small enough to show what is wrong, if it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.read import find_many, iterate, read_page
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing import strategies
from lochan.testing.memory_nodes import MemoryNodes
from lochan.testing.models.index import IndexModel
from tests.property.tree_runs import hard_one_in


@pytest.fixture(autouse=True, scope="module")
def frequent_hard_breaks():
    """Boundaries everywhere, so that twenty keys already make three levels."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        hard_one_in(monkeypatch, 4)
        yield


@given(
    st.binary(min_size=16, max_size=16),
    st.lists(strategies.changes(strategies.wide_values), max_size=6),
    strategies.index_keys,
    strategies.index_keys,
    st.integers(1, 50),
)
def test_every_edit_leaves_the_tree_of_its_content_and_reads_agree(
    seed, batches, start, end, limit
):
    rule, stored = BoundaryRule(seed), MemoryNodes()
    source = CachedNodes(stored, Caches(1 << 22))
    model, root = IndexModel(), None
    for changes in batches:
        edited = edit_tree(source, rule, 50, root, changes)
        stored.keep_all(edited.nodes)
        after = model.changed(changes)
        assert edited.root == build_tree(rule, 50, after.items(), lambda _: None)
        assert list(iterate(source, edited.root)) == after.items()
        assert list(diff_trees(source, root, edited.root)) == model.diff(after)
        assert read_page(source, edited.root, start, end, limit) == after.items(start, end)[:limit]
        keys = sorted({start, end, *model.elements})
        assert find_many(source, edited.root, keys) == after.find_many(keys)
        model, root = after, edited.root


@given(
    st.binary(min_size=16, max_size=16),
    st.lists(strategies.changes(strategies.varied_values), max_size=6),
)
def test_the_order_of_batches_does_not_matter_when_they_touch_different_keys(seed, batches):
    rule = BoundaryRule(seed)
    parts: list[dict[bytes, bytes]] = []
    taken: set[bytes] = set()
    for changes in batches:
        parts.append({key: value for key, value in changes if value and key not in taken})
        taken |= parts[-1].keys()
    roots = set()
    for ordered in (parts, parts[::-1]):
        stored, root = MemoryNodes(), None
        for part in ordered:
            edited = edit_tree(
                CachedNodes(stored, Caches(1 << 20)), rule, None, root, sorted(part.items())
            )
            stored.keep_all(edited.nodes)
            root = edited.root
        roots.add(root)
    assert len(roots) == 1
