"""Bytes and values that somebody else wrote: refused with a typed error, nothing written."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import Corrupt, Invalid, LochanError, NewerFormat
from lochan.base.keys import Universe
from lochan.codec.elements import decode_file, decode_table
from lochan.codec.objects import NodeObject, ValueObject, decode_object
from lochan.index.boundary import BoundaryRule
from lochan.index.edit import edit_tree
from lochan.index.layers import EMPTY_INDEX, SHAPES
from lochan.index.node import check_shape, items_of, seal
from lochan.index.source import CachedNodes
from lochan.index.spill import advance, decode_embedded
from lochan.persist.cache import Caches
from lochan.testing.memory_nodes import MemoryNodes

RULE = BoundaryRule(bytes(16))
KINDS: list[Any] = [ValueObject, NodeObject]

forged_nodes = st.builds(
    NodeObject,
    st.just(1),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-(2**63), 2**64 - 1),
    st.binary(max_size=4),
    st.lists(st.binary(max_size=4), max_size=4).map(tuple),
    st.integers(-5, 60) | st.lists(st.integers(-5, 60), max_size=4).map(tuple),
    st.binary(max_size=120),
)


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_corrupt(raw):
    for kind in KINDS:
        with suppress(Corrupt, NewerFormat):
            decode_object(kind, raw)
    for decode in (decode_table, decode_file, decode_embedded):
        with suppress(Corrupt, NewerFormat):
            decode(raw)


@given(forged_nodes)
def test_a_forged_node_is_refused_or_has_a_value_for_every_key(node):
    try:
        check_shape(node)
    except Corrupt:
        return
    assert len(list(items_of(node))) == len(node.suffixes)
    assert all(value for _, value in items_of(node))


@given(forged_nodes)
def test_a_forged_node_is_loaded_whole_or_corrupt(node):
    stored = MemoryNodes()
    new = seal(node)
    stored.keep(new)
    with suppress(Corrupt, NewerFormat):
        assert CachedNodes(stored, Caches(1 << 20)).load_node(new.obj_id) == node


@pytest.mark.parametrize(
    "raw",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x99\x04\x01\x00\x01\x01\xc6\xff\xff\xff\xff",
        b"\x99\x04\x01\x00\x01\x01\xc4\x00\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\xc1",
    ],
    ids=lambda raw: raw[:12].hex(),
)
def test_lengths_that_promise_gigabytes_and_deep_nests_are_corrupt(raw):
    for kind in KINDS:
        with pytest.raises(Corrupt):
            decode_object(kind, raw)
    with pytest.raises(Corrupt):
        decode_file(b"\0" + raw)


def test_a_bomb_of_nested_arrays_in_a_field_is_corrupt():
    fields = [4, 1, 0, 1, 1, b"", [b"k"], 1, b"v"]
    for at in range(len(fields)):
        packed = [msgspec.msgpack.encode(field) for field in fields]
        packed[at] = b"\x91" * 50_000 + b"\x00"
        with pytest.raises(Corrupt):
            decode_object(NodeObject, b"\x99" + b"".join(packed))


@given(st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=51)), max_size=5))
def test_any_changes_are_applied_or_refused_with_nothing_to_store(changes):
    stored = MemoryNodes()
    source = CachedNodes(stored, Caches(1 << 20))
    shape = SHAPES[Universe.TABLES]
    keys = [key for key, _ in changes]
    right = keys == sorted(set(keys) - {b""}) and all(
        value is None or len(value) == 50 for _, value in changes
    )
    for apply in (
        lambda: edit_tree(source, RULE, 50, None, changes),
        lambda: advance(source, RULE, shape, EMPTY_INDEX, changes, 4_096),
    ):
        if right:
            apply()
        else:
            with pytest.raises(Invalid):
                apply()
    assert stored.raws == {}


def test_every_refusal_is_one_of_ours():
    """The tree of errors is closed: no other exception is part of any promise above."""
    assert issubclass(Corrupt, LochanError)
    assert issubclass(Invalid, LochanError)
