"""Hypothesis strategies for what users name: keys, entries, objects and changes of an index."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from lochan.base.ids import ContentId, ObjId
from lochan.base.limits.contents import (
    KEY_CHARACTERS_MAX,
    KEY_ELEMENTS_MAX,
    PATH_BYTES_MAX,
    PAYLOAD_MAX,
)
from lochan.base.limits.storage import NODE_ELEMENTS_MAX
from lochan.codec.elements import TABLE_WIDTH
from lochan.codec.objects import FileObject, NodeObject, ValueObject
from lochan.index.node import Change, build_node
from lochan.model.entries import FileEntry, TableEntry

_CONTROL = "".join(map(chr, [*range(0x20), 0x7F]))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
"""Any valid Unicode text, short."""

object_ids = st.binary(min_size=32, max_size=32).map(ObjId)
"""Any 32 bytes."""

content_ids = st.one_of(
    st.uuids().map(lambda found: ContentId(str(found))),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).map(ContentId),
)
"""UUIDs, and what old catalogs used instead."""

uuid_content_ids = st.binary(min_size=16, max_size=16).map(
    lambda raw: ContentId(str(UUID(bytes=raw)))
)
"""Content ids that fit into an element."""

key_elements = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=_CONTROL), min_size=1, max_size=24
)
"""One element of a table key."""

table_names = st.lists(key_elements, min_size=1, max_size=KEY_ELEMENTS_MAX).filter(
    lambda parts: sum(map(len, parts)) <= KEY_CHARACTERS_MAX
)
"""All elements of a table key."""

file_paths = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200
).filter(lambda path: len(path.encode()) <= PATH_BYTES_MAX)
"""Paths of files."""

table_entries = st.builds(
    TableEntry, st.integers(1, PAYLOAD_MAX), object_ids, st.none() | uuid_content_ids
)
"""Entries of the tables universe."""

file_entries = st.builds(
    FileEntry,
    texts,
    st.integers(0, 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.just(b"") | st.binary(min_size=32, max_size=32),
    texts,
    st.dictionaries(texts, texts, max_size=4).map(lambda found: tuple(sorted(found.items()))),
    texts,
    st.just(b"") | st.binary(min_size=16, max_size=16),
)
"""Entries of the files universe."""

index_keys = st.binary(min_size=1, max_size=6) | st.builds(
    lambda stem, number: stem + b"%04d" % number,
    st.sampled_from([b"ta", b"ta\x01b", b"ta\x01b\x01", b"tz"]),
    st.integers(0, 400),
)
"""Keys as an index sees them: any bytes, often with long shared beginnings."""

wide_values = st.binary(min_size=TABLE_WIDTH - 1, max_size=TABLE_WIDTH - 1).map(b"\0".__add__)
"""Values as wide as table elements."""

varied_values = st.binary(max_size=60).map(b"\0".__add__)
"""Values of varying width."""


def changes(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Change]]:
    """Puts and removes in ascending order of their keys."""
    return st.dictionaries(index_keys, st.none() | values, max_size=NODE_ELEMENTS_MAX).map(
        lambda found: sorted(found.items())
    )


def _leaf(width: int | None, items: dict[bytes, bytes]) -> NodeObject:
    ordered = sorted(items.items())
    return build_node(0, [key for key, _ in ordered], [value for _, value in ordered], width)


nodes = st.one_of(
    st.builds(_leaf, st.just(TABLE_WIDTH), st.dictionaries(index_keys, wide_values, min_size=1)),
    st.builds(_leaf, st.none(), st.dictionaries(index_keys, varied_values, min_size=1)),
)
"""Leaves of both universes."""

objects = st.one_of(
    st.builds(ValueObject, st.just(1), texts, st.integers(1, PAYLOAD_MAX), st.binary(max_size=60)),
    st.builds(FileObject, st.just(1), st.binary(max_size=60)),
    nodes,
)
"""Stored objects of every type."""
