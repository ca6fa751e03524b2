"""Single nodes: search, careful editing, and refusing what does not fit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Bug, Corrupt
from lochan.codec.objects import NodeObject, check_object_id, decode_object
from lochan.index.node import (
    CHILD_WIDTH,
    Draft,
    build_node,
    check_shape,
    child_at,
    child_count_at,
    child_value,
    common_prefix_length,
    find_value,
    items_of,
    key_at,
    keys_of,
    last_key,
    lower_bound,
    seal,
    value_at,
    values_of,
)
from lochan.testing import strategies

contents = st.one_of(
    st.tuples(
        st.just(50), st.dictionaries(strategies.index_keys, strategies.wide_values, min_size=1)
    ),
    st.tuples(
        st.none(), st.dictionaries(strategies.index_keys, strategies.varied_values, min_size=1)
    ),
)


def leaf(width, content):
    ordered = sorted(content.items())
    return build_node(0, [key for key, _ in ordered], [value for _, value in ordered], width)


@given(contents, st.lists(strategies.index_keys))
def test_a_node_finds_what_it_holds_and_nothing_else(made, others):
    width, content = made
    node = leaf(width, content)
    for key in [*content, *others, b""]:
        assert find_value(node, key) == content.get(key)
        assert lower_bound(node, key) == sum(held < key for held in content)


@given(contents)
def test_keys_and_values_come_apart_as_they_were_joined(made):
    width, content = made
    node = leaf(width, content)
    assert list(items_of(node)) == sorted(content.items())
    assert len(node.suffixes) == node.total == len(content)
    assert node.raw == sum(len(key) + len(value) for key, value in content.items())
    assert last_key(node) == max(content)
    for at, (key, value) in enumerate(sorted(content.items())):
        assert (key_at(node, at), value_at(node, at)) == (key, value)


@given(contents)
def test_a_sealed_node_comes_back_from_its_bytes(made):
    new = seal(leaf(*made))
    check_object_id(new.obj_id, new.raw)
    assert decode_object(NodeObject, new.raw) == new.node


@given(contents)
def test_the_prefix_is_as_long_as_possible(made):
    node = leaf(*made)
    keys = keys_of(node)
    assert all(key.startswith(node.prefix) for key in keys)
    longer = {key[: len(node.prefix) + 1] for key in keys}
    assert len(longer) > 1 or node.prefix in keys


@given(st.binary(max_size=20), st.binary(max_size=20), st.binary(max_size=20))
def test_the_common_prefix_of_two_keys(shared, one, other):
    first, second = shared + one, shared + other
    length = common_prefix_length(first, second)
    assert first[:length] == second[:length]
    assert length >= len(shared)
    assert length == min(len(first), len(second)) or first[length] != second[length]


@given(contents, st.data())
def test_a_draft_becomes_the_node_of_its_content_and_leaves_the_old_one_alone(made, data):
    width, content = made
    node = leaf(width, content)
    before = msgspec.msgpack.encode(node)
    draft, after = Draft(node), dict(content)
    values = strategies.wide_values if width else strategies.varied_values
    for _ in range(data.draw(st.integers(1, 6))):
        keys = sorted(after)
        key = data.draw(st.sampled_from(keys) | st.binary(max_size=3).map(node.prefix.__add__))
        at = sum(held < key for held in keys)
        if key in after and 0 < at < len(keys) - 1 and data.draw(st.booleans()):
            draft.delete(at)
            del after[key]
            continue
        value = data.draw(values)
        if key in after:
            draft.replace(at, value)
        else:
            draft.insert(at, key[len(node.prefix) :], value)
        after[key] = value
        assert draft.value(at) == value
    assert draft.node() == leaf(width, after)
    assert msgspec.msgpack.encode(node) == before


def test_inner_nodes_know_their_children_and_what_is_below_them():
    children = [
        seal(leaf(50, {b"t%d%d" % (a, b): bytes(50) for b in range(3 + a)})) for a in (1, 2)
    ]
    keys = [last_key(child.node) for child in children]
    node = build_node(1, keys, [child_value(child) for child in children], CHILD_WIDTH)
    assert [child_at(node, at) for at in (0, 1)] == [child.obj_id for child in children]
    assert [child_count_at(node, at) for at in (0, 1)] == [4, 5]
    assert node.total == 9
    assert values_of(node) == [child_value(child) for child in children]


def test_a_node_has_at_least_one_element_and_a_value_for_each_key():
    with pytest.raises(Bug):
        build_node(0, [], [], None)
    with pytest.raises(Bug):
        build_node(0, [b"a", b"b"], [b"1"], None)


@pytest.mark.parametrize(
    "change",
    [
        {"values": bytes(99)},
        {"values": bytes(101)},
        {"values": b""},
        {"widths": 49},
        {"widths": 0, "values": b""},
        {"widths": -50},
        {"widths": (50,)},
        {"widths": (50, 50, 0)},
        {"widths": (100, 0)},
        {"widths": (150, -50)},
        {"widths": ()},
        {"suffixes": (b"1",)},
        {"suffixes": (b"1", b"2", b"3")},
        {"suffixes": (), "values": b""},
        {"level": 1},
        {"level": -1},
        {"level": 20},
    ],
    ids=repr,
)
def test_a_node_whose_lengths_do_not_fit_is_corrupt(change):
    node = leaf(50, {b"t1": bytes(50), b"t2": bytes(50)})
    check_shape(node)
    wrong = msgspec.structs.replace(node, **change)
    with pytest.raises(Corrupt):
        check_shape(wrong)


def test_nodes_cannot_be_changed():
    node = leaf(50, {b"t1": bytes(50)})
    with pytest.raises(AttributeError):
        node.values = b""
