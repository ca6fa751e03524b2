"""Marks lead back to their keys, and show nothing of them."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Invalid
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.base.limits.storage import TREE_LEVELS_MAX
from lochan.index.layers import EMPTY_INDEX, Index
from lochan.index.marks import find_marked, is_mark, mark_key
from lochan.kernel.views import CommitView
from lochan.model.specs import parse_spec
from tests.service.bench import ME, Bench, new, space

SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def bench() -> Bench:
    """A tree of two levels or more, and later keys that are embedded: before, among and after."""
    one = Bench()
    one.commit(space("m"), *[new(f"m.t{number:04}") for number in range(0, 4_000, 2)])
    one.commit(new("a"), new("m.t0001"), new("m.t3999"), new("z"))
    return one


@pytest.fixture(scope="module")
def view(bench) -> CommitView:
    context = bench.repository.context
    return context.views.load(ObjId(bytes.fromhex(bench.head())))


@pytest.fixture(scope="module")
def keys(bench) -> list[bytes]:
    entries = bench.contents.entries(ME, parse_spec("main")).items
    return [bytes((Universe.TABLES,)) + "\x01".join(entry.key).encode() for entry in entries]


def test_the_index_has_both_layers(bench, view):
    assert view.tables.embedded is not None
    assert bench.repository.context.nodes.load_node(view.tables.root).level >= 1


def test_a_mark_leads_to_its_key(bench, view, keys):
    nodes = bench.repository.context.nodes
    some = {*keys[:5], *keys[-5:], *Random(1).sample(keys, 60), b"tm\x01t0001", b"ta", b"tz"}
    for key in some:
        mark = mark_key(nodes, view.tables, key, SECRET, view.obj_id)
        assert (is_mark(mark), is_mark(key)) == (True, False)
        assert find_marked(nodes, view.tables, mark, SECRET, view.obj_id) == key


def test_a_mark_shows_nothing_of_its_key(bench, view, keys):
    nodes = bench.repository.context.nodes
    marks = {
        key: mark_key(nodes, view.tables, key, SECRET, view.obj_id)
        for key in Random(2).sample(keys, 40)
    }
    assert {len(mark) for mark in marks.values()} == {1 + 16 * (TREE_LEVELS_MAX + 1)}
    for key, mark in marks.items():
        assert key not in mark
        assert sha256(key).digest()[:16] not in mark
        # Without the secret, or for another commit, there is nothing in common.
        other = mark_key(nodes, view.tables, key, bytes(32), view.obj_id)
        later = mark_key(nodes, view.tables, key, SECRET, ObjId(bytes(32)))
        assert not parts(mark) & parts(other)
        assert not parts(mark) & parts(later)


def parts(mark: bytes) -> set[bytes]:
    return {mark[at : at + 16] for at in range(1, len(mark), 16)}


def test_keys_far_apart_have_no_part_in_common(bench, view):
    """Marks of one node share the way to it, and no more."""
    nodes = bench.repository.context.nodes
    first, near, far = (
        parts(mark_key(nodes, view.tables, key, SECRET, view.obj_id))
        for key in (b"tm\x01t0000", b"tm\x01t0002", b"tm\x01t3998")
    )
    assert len(first & near) <= nodes.load_node(view.tables.root).level
    assert not first & far


def test_a_mark_of_another_index_leads_nowhere(bench, view, keys):
    nodes = bench.repository.context.nodes
    mark = mark_key(nodes, view.tables, keys[7], SECRET, view.obj_id)
    for index, secret, commit in (
        (EMPTY_INDEX, SECRET, view.obj_id),
        (Index(None, view.tables.root), bytes(32), view.obj_id),
        (view.tables, SECRET, ObjId(bytes(32))),
        (Index(view.tables.embedded), SECRET, view.obj_id),
    ):
        with pytest.raises(Invalid, match="start again"):
            find_marked(nodes, index, mark, secret, commit)


@given(rest=st.binary(max_size=400))
def test_no_bytes_are_a_mark_by_accident(bench, view, rest):
    nodes = bench.repository.context.nodes
    for index in (EMPTY_INDEX, view.tables):
        with pytest.raises(Invalid):
            find_marked(nodes, index, b"\0" + rest, SECRET, view.obj_id)
