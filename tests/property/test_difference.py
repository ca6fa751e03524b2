"""The difference of two trees equals that of two dictionaries, and reads only what differs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from lochan.base.ids import ObjId
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.difference import diff_trees
from lochan.index.edit import edit_tree
from lochan.index.source import CachedNodes
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes
from lochan.testing.models.index import IndexModel
from tests.property.tree_runs import hard_one_in

RULE = BoundaryRule(bytes(16))
LEVELS_OF_100K = 4


def value(random: Random) -> bytes:
    return b"\0" + random.randbytes(49)


def random_content(random: Random, count: int) -> dict[bytes, bytes]:
    return {b"t%06d" % random.randrange(3 * count + 1): value(random) for _ in range(count)}


def build(stored: MemoryNodes, content: dict[bytes, bytes]) -> ObjId | None:
    return build_tree(RULE, 50, sorted(content.items()), stored.keep)


def some_ranges(random: Random) -> list[tuple[bytes, bytes | None]]:
    some = [(b"t%06d" % random.randrange(6_000), b"t%06d" % random.randrange(6_000))] * 2
    return [(b"", None), (b"t001", None), (b"", b"t0015"), (b"t5", b"t4"), *some]


@pytest.mark.parametrize("one_in", [50_000, 20])
@pytest.mark.parametrize("count", [0, 1, 30, 300, 2_000])
def test_it_equals_the_difference_of_dictionaries(monkeypatch, count, one_in):
    hard_one_in(monkeypatch, one_in)
    random = Random(count)
    for _ in range(4):
        stored = MemoryNodes()
        base = random_content(random, count)
        near = {**base, **random_content(random, 3)}
        for key in random.sample(sorted(near), min(5, len(near))):
            del near[key]
        contents = [base, near, random_content(random, 10), random_content(random, count), {}]
        roots = [build(stored, content) for content in contents]
        for left, left_root in zip(contents, roots, strict=True):
            for right, right_root in zip(contents, roots, strict=True):
                for start, end in some_ranges(random):
                    source = CachedNodes(stored, Caches(1 << 22))
                    found = list(diff_trees(source, left_root, right_root, start, end))
                    assert found == IndexModel(left.items()).diff(
                        IndexModel(right.items()), start, end
                    )


@pytest.fixture(scope="module")
def large() -> tuple[MemoryNodes, ObjId]:
    stored = MemoryNodes()
    items = (
        (b"tns%02d\x01table%06d" % (n // 5_000, n), b"\0" + b"%049d" % n) for n in range(100_000)
    )
    root = build_tree(RULE, 50, items, stored.keep)
    assert root is not None
    assert CachedNodes(stored, Caches(1 << 20)).load_node(root).level == LEVELS_OF_100K - 1
    return stored, root


def edited(stored: MemoryNodes, root: ObjId, numbers: Sequence[int]) -> ObjId:
    changes = [(b"tns%02d\x01table%06d" % (n // 5_000, n), bytes(50)) for n in sorted(numbers)]
    result = edit_tree(CachedNodes(stored, Caches(1 << 24)), RULE, 50, root, changes)
    stored.keep_all(result.nodes)
    assert result.root is not None
    return result.root


@pytest.mark.parametrize("seed", range(5))
def test_ten_changes_in_100_000_keys_read_at_most_100_nodes_in_one_fetch_per_level(large, seed):
    stored, root = large
    numbers = Random(seed).sample(range(100_000), 10)
    after = edited(stored, root, numbers)
    stored.forget_fetches()
    found = list(diff_trees(CachedNodes(stored, Caches(1 << 22)), root, after))
    assert len(found) == 10
    assert stored.fetched_ids <= 100
    # Both roots come one by one, every level below in one fetch.
    assert len(stored.fetches) <= LEVELS_OF_100K + 1


def test_neighbouring_changes_read_little_more_than_one_path_on_each_side(large):
    stored, root = large
    after = edited(stored, root, range(500, 505))
    stored.forget_fetches()
    assert len(list(diff_trees(CachedNodes(stored, Caches(1 << 22)), root, after))) == 5
    assert stored.fetched_ids <= 2 * LEVELS_OF_100K + 2


def test_a_range_reads_only_its_own_nodes(large):
    stored, root = large
    after = edited(stored, root, range(0, 100_000, 1_000))
    stored.forget_fetches()
    source = CachedNodes(stored, Caches(1 << 22))
    found = list(diff_trees(source, root, after, b"tns07\x01", b"tns07\x01table036"))
    assert len(found) == 1
    assert stored.fetched_ids <= 4 * LEVELS_OF_100K


def test_equal_roots_read_nothing(large):
    stored, root = large
    stored.forget_fetches()
    assert list(diff_trees(CachedNodes(stored, Caches(1 << 22)), root, root)) == []
    assert list(diff_trees(CachedNodes(stored, Caches(1 << 22)), None, None)) == []
    assert stored.fetches == []


@pytest.mark.parametrize("other_keys", [0, 1, 100, 3_000])
@pytest.mark.parametrize("turned", [False, True])
def test_however_much_differs_few_nodes_are_held_at_once(large, other_keys, turned):
    """Found by review: trees of unequal heights were once opened whole, in one fetch."""
    stored, root = large
    other = build_tree(
        RULE, 50, ((b"tother%06d" % n, bytes(50)) for n in range(other_keys)), stored.keep
    )
    stored.forget_fetches()
    left, right = (other, root) if turned else (root, other)
    found = diff_trees(CachedNodes(stored, Caches(1 << 18)), left, right)
    assert sum(1 for _ in found) == 100_000 + other_keys
    assert max(stored.fetches) <= 260


def test_what_was_asked_for_first_is_read_first(large):
    stored, root = large
    stored.forget_fetches()
    first = next(diff_trees(CachedNodes(stored, Caches(1 << 22)), root, None))
    assert first.key == b"tns00\x01table000000"
    assert stored.fetched_ids <= 400
