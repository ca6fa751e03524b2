"""The step from commit to commit: what stays embedded, what moves into the tree."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.base.limits.storage import EMBEDDED_BYTES_MAX, EMBEDDED_STAGGER_BYTES
from lochan.codec.elements import FILE_REMOVE, TABLE_REMOVE
from lochan.index.boundary import BoundaryRule
from lochan.index.layers import EMPTY_INDEX, SHAPES, Index, find_many
from lochan.index.node import items_of, keys_of
from lochan.index.read import iterate
from lochan.index.source import CachedNodes
from lochan.index.spill import Advanced, advance, decode_embedded, encode_embedded, spill_limit
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes
from tests.index.actions import Action, ActionElement, embedded_actions, own_actions, tree_actions

RULE = BoundaryRule(bytes(16))
TABLES = SHAPES[Universe.TABLES]
FILES = SHAPES[Universe.FILES]


def element(number: int) -> bytes:
    return b"\0" + b"%049d" % number


def key_of(number: int) -> bytes:
    return b"ttable%05d" % number


class Branch:
    """Commits one after the other."""

    def __init__(self, shape=TABLES, limit: int = 4_096) -> None:
        self.shape = shape
        self.limit = limit
        self.stored = MemoryNodes()
        self.source = CachedNodes(self.stored, Caches(1 << 24))
        self.index: Index = EMPTY_INDEX

    def commit(self, *operations) -> Advanced:
        made = advance(self.source, RULE, self.shape, self.index, sorted(operations), self.limit)
        self.stored.keep_all(made.nodes)
        self.index = made.index
        return made

    def embedded_keys(self) -> list[bytes]:
        return [] if self.index.embedded is None else keys_of(self.index.embedded)

    def tree(self) -> dict[bytes, bytes]:
        return dict(iterate(self.source, self.index.root))


def test_small_commits_touch_no_tree():
    branch = Branch()
    for number in range(20):
        made = branch.commit((key_of(number), element(number)))
        assert made.nodes == []
    assert branch.index.root is None
    assert branch.embedded_keys() == [key_of(number) for number in range(20)]


def test_a_full_layer_spills_what_is_older_and_keeps_the_commits_own():
    branch = Branch()
    number = 0
    while not branch.commit((key_of(number), element(number))).nodes:
        number += 1
    assert branch.embedded_keys() == [key_of(number)]
    assert branch.tree() == {key_of(n): element(n) for n in range(number)}
    # 50 bytes of element, a short suffix and its header: some 70 commits fill 4 KB.
    assert 60 < number < 80


def test_a_commit_that_alone_is_over_the_limit_moves_into_the_tree_whole():
    branch = Branch()
    branch.commit((key_of(1), element(1)))
    made = branch.commit(*((key_of(n), element(n)) for n in range(100, 300)))
    assert made.embedded_raw == b""
    assert made.index.embedded is None
    assert len(branch.tree()) == 201


def test_a_commit_larger_than_any_object_spills_as_well():
    """Found by review: it was refused as too large before it could spill."""
    branch = Branch()
    branch.commit(*((key_of(n), element(n)) for n in range(20_000)))
    assert branch.index.embedded is None
    assert len(branch.tree()) == 20_000


def test_operations_of_one_commit_each_find_their_own_place():
    """Found by the random worlds: the second of two inserts was placed as if it were the first."""
    branch = Branch()
    branch.commit((key_of(10), element(10)), (key_of(50), element(50)))
    branch.commit(*((key_of(n), element(n)) for n in (5, 7, 20, 30, 60, 70)))
    assert branch.embedded_keys() == [key_of(n) for n in (5, 7, 10, 20, 30, 50, 60, 70)]


def test_a_layer_of_exactly_the_limit_stays():
    branch = Branch()
    size = len(branch.commit((key_of(1), element(1)), (key_of(2), element(2))).embedded_raw)
    for limit, spills in ((size, False), (size - 1, True)):
        other = Branch(limit=limit)
        other.commit((key_of(1), element(1)))
        assert bool(other.commit((key_of(2), element(2))).nodes) is spills


def test_where_there_is_no_tree_a_remove_leaves_nothing():
    branch = Branch()
    branch.commit((key_of(1), element(1)), (key_of(2), element(2)))
    branch.commit((key_of(1), None), (key_of(7), None))
    assert branch.embedded_keys() == [key_of(2)]
    made = branch.commit((key_of(2), None))
    assert made.index == EMPTY_INDEX
    assert made.embedded_raw == b""


@pytest.mark.parametrize(("shape", "marker"), [(TABLES, TABLE_REMOVE), (FILES, FILE_REMOVE)])
def test_over_a_tree_a_remove_leaves_a_mark_that_hides_the_key_until_it_spills(shape, marker):
    branch = Branch(shape, limit=0)
    branch.commit((key_of(1), element(1)), (key_of(2), element(2)))
    branch.limit = 4_096
    branch.commit((key_of(1), None))
    assert branch.index.embedded is not None
    assert list(items_of(branch.index.embedded)) == [(key_of(1), marker)]
    assert find_many(branch.source, branch.index, [key_of(1), key_of(2)]) == [None, element(2)]
    branch.limit = 0
    branch.commit((key_of(3), element(3)))
    assert branch.tree() == {key_of(2): element(2), key_of(3): element(3)}


def test_a_branch_emptied_by_a_spill_has_no_tree():
    branch = Branch(limit=0)
    branch.commit((key_of(1), element(1)))
    branch.commit((key_of(1), None))
    assert branch.index == EMPTY_INDEX


def test_an_empty_commit_changes_nothing():
    branch = Branch()
    assert branch.commit().index == EMPTY_INDEX
    branch.commit((key_of(1), element(1)))
    before = branch.index
    assert branch.commit().index == before


def test_splicing_equals_encoding_anew():
    branch = Branch(limit=1 << 20)
    for number in (5, 3, 9, 3, 7, 1):
        made = branch.commit((key_of(number), element(number)), (key_of(90), element(number)))
        anew = Branch(limit=1 << 20)
        assert branch.index.embedded is not None
        again = anew.commit(*items_of(branch.index.embedded))
        assert again.embedded_raw == made.embedded_raw
        assert decode_embedded(made.embedded_raw) == made.index.embedded


def test_an_embedded_layer_comes_back_from_its_bytes():
    assert decode_embedded(encode_embedded(None)) is None
    with pytest.raises(Corrupt):
        decode_embedded(b"\x00")


def test_the_spill_limit_varies_with_the_parent_within_its_bounds():
    limits = {spill_limit(ObjId(number.to_bytes(2, "big") + bytes(30))) for number in range(65_536)}
    assert min(limits) == EMBEDDED_BYTES_MAX - EMBEDDED_STAGGER_BYTES // 4
    assert max(limits) < EMBEDDED_BYTES_MAX + EMBEDDED_STAGGER_BYTES
    assert len(limits) == EMBEDDED_STAGGER_BYTES


def test_branches_that_began_together_do_not_spill_together():
    spilled = set()
    for start in range(40):
        limit = spill_limit(ObjId(bytes([start * 5, start * 7 % 256]) + bytes(30)))
        branch, number = Branch(limit=limit), 0
        while not branch.commit((key_of(number), element(number))).nodes:
            number += 1
        spilled.add(number)
    assert len(spilled) > 10


def test_the_five_actions():
    branch = Branch(limit=0)
    branch.commit(*((key_of(n), element(n)) for n in range(4)))
    branch.limit = 4_096
    branch.commit((key_of(0), None), (key_of(10), element(10)))
    branch.commit((key_of(1), None), (key_of(11), element(11)))
    own = frozenset({key_of(1), key_of(11)})
    assert list(embedded_actions(branch.index, own)) == [
        ActionElement(key_of(0), Action.INCREMENTAL_REMOVE, None),
        ActionElement(key_of(1), Action.REMOVE, None),
        ActionElement(key_of(10), Action.INCREMENTAL_ADD, element(10)),
        ActionElement(key_of(11), Action.ADD, element(11)),
    ]
    assert list(tree_actions(branch.source, branch.index)) == [
        ActionElement(key_of(n), Action.NONE, element(n)) for n in range(4)
    ]
    branch.stored.forget_fetches()
    assert own_actions(branch.source, branch.index, own) == [
        ActionElement(key_of(1), Action.REMOVE, None),
        ActionElement(key_of(11), Action.ADD, element(11)),
    ]
    assert branch.stored.fetches == [], "a commit's own operations are found without the tree"


def test_own_operations_are_found_also_when_they_spilled_at_once():
    branch = Branch(limit=0)
    branch.commit((key_of(1), element(1)), (key_of(2), element(2)))
    branch.commit((key_of(1), None), (key_of(3), element(3)))
    assert own_actions(branch.source, branch.index, {key_of(1), key_of(3)}) == [
        ActionElement(key_of(1), Action.REMOVE, None),
        ActionElement(key_of(3), Action.ADD, element(3)),
    ]
