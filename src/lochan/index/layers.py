"""The index of one universe at one commit: a small embedded layer over a tree.

The embedded layer holds the latest puts and removes and is written with every commit; the tree
holds the rest. An element of the embedded layer hides one of the tree. (A commit stores a list of
layers, which allows a level between the two; it was measured and not built, see ADR 0005.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final

import msgspec

from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.codec.elements import FILE_REMOVE, TABLE_REMOVE, TABLE_WIDTH, is_remove
from lochan.index.difference import Difference, diff_trees, leaves_of_right
from lochan.index.node import Node, find_value, items_of, key_at, lower_bound, value_at
from lochan.index.read import find_many as find_many_in_tree
from lochan.index.read import find_one as find_one_in_tree
from lochan.index.read import read_page as read_tree_page
from lochan.index.source import NodeSource


class Shape(msgspec.Struct, frozen=True, gc=False):
    """The form of a universe's elements: the width of their values, and the one for a removal."""

    width: int | None
    remove: bytes


SHAPES: Final = {
    Universe.TABLES: Shape(TABLE_WIDTH, TABLE_REMOVE),
    Universe.FILES: Shape(None, FILE_REMOVE),
}


class Index(msgspec.Struct, frozen=True, gc=False):
    """Both layers; either may be missing."""

    embedded: Node | None = None
    root: ObjId | None = None


EMPTY_INDEX: Final = Index()

_KEY: Final = attrgetter("key")


def find_one(source: NodeSource, index: Index, key: bytes) -> bytes | None:
    """Returns the element of a key; None if there is none or it was removed."""
    embedded = index.embedded
    element = None if embedded is None else find_value(embedded, key)
    if element is None:
        return find_one_in_tree(source, index.root, key)
    return None if is_remove(element) else element


def find_many(source: NodeSource, index: Index, keys: Sequence[bytes]) -> list[bytes | None]:
    """Returns the elements of ascending keys; None where there is none or it was removed."""
    embedded = index.embedded
    if embedded is None:
        return find_many_in_tree(source, index.root, keys)
    found = [find_value(embedded, key) for key in keys]
    below = [key for key, element in zip(keys, found, strict=True) if element is None]
    if not below:
        return [None if is_remove(element) else element for element in found if element is not None]
    deeper = iter(find_many_in_tree(source, index.root, below))
    return [
        next(deeper) if element is None else (None if is_remove(element) else element)
        for element in found
    ]


def find_in_both(
    source: NodeSource, one: Index, other: Index, keys: Sequence[bytes]
) -> tuple[list[bytes | None], list[bytes | None]]:
    """Returns the elements of ascending keys in two indexes, as two calls of `find_many` would.

    Between two commits of one branch there are many splices and few spills: mostly both have the
    same tree, which is then read once.
    """
    if one.root != other.root:
        return find_many(source, one, keys), find_many(source, other, keys)
    recent = [_find_embedded(one.embedded, keys), _find_embedded(other.embedded, keys)]
    if recent[0] == recent[1]:
        found = find_many(source, other, keys)
        return found, found.copy()
    below = [key for key, *elements in zip(keys, *recent, strict=True) if None in elements]
    tree = dict(zip(below, find_many_in_tree(source, one.root, below), strict=True))
    first, second = (
        [
            tree[key] if element is None else (None if is_remove(element) else element)
            for key, element in zip(keys, elements, strict=True)
        ]
        for elements in recent
    )
    return first, second


def _find_embedded(embedded: Node | None, keys: Sequence[bytes]) -> list[bytes | None]:
    return [None if embedded is None else find_value(embedded, key) for key in keys]


def read_page(
    source: NodeSource, index: Index, start: bytes, end: bytes | None, limit: int
) -> list[tuple[bytes, bytes]]:
    """Returns the first `limit` elements of [start, end), in order, removed ones left out."""
    recent = list(_embedded_range(index.embedded, start, end))
    if not recent:
        return read_tree_page(source, index.root, start, end, limit)
    # Each recent element may hide one of the tree, so that many more are read.
    below = read_tree_page(source, index.root, start, end, limit + len(recent))
    whole = len(below) < limit + len(recent)
    reached = [(key, element) for key, element in recent if whole or key <= below[-1][0]]
    merged = {**dict(below), **dict(reached)}
    page = [item for item in sorted(merged.items()) if not is_remove(item[1])]
    return page[:limit]


def diff(
    source: NodeSource,
    left: Index,
    right: Index,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[Difference]:
    """Returns the keys of [start, end) whose elements differ, in order, read as they are needed."""
    recent = sorted(
        {key for index in (left, right) for key, _ in _embedded_range(index.embedded, start, end)}
    )
    pairs = zip(
        recent, find_many(source, left, recent), find_many(source, right, recent), strict=True
    )
    changed = (Difference(key, old, new) for key, old, new in pairs if old != new)
    hidden = set(recent)
    below = (
        change
        for change in diff_trees(source, left.root, right.root, start, end)
        if change.key not in hidden
    )
    return merge(changed, below, key=_KEY)


def find_changed(
    source: NodeSource,
    left: Index,
    right: Index,
    matches: Callable[[bytes], bool],
    select: Callable[[Node], Iterable[bytes]],
) -> list[Difference]:
    """Returns the keys that the right index has otherwise than the left, with a matching element.

    `select` returns the keys of a leaf whose elements match. So a difference of very many keys
    that is searched for few elements costs no object for each key.
    """
    keys = {key for index in (left, right) for key, _ in _embedded_range(index.embedded, b"", None)}
    for leaf in leaves_of_right(source, left.root, right.root):
        keys.update(select(leaf))
    wanted = sorted(keys)
    found = zip(wanted, find_many(source, right, wanted), strict=True)
    matching = [(key, new) for key, new in found if new is not None and matches(new)]
    olds = find_many(source, left, [key for key, _ in matching])
    return [
        Difference(key, old, new)
        for (key, new), old in zip(matching, olds, strict=True)
        if old != new
    ]


def _embedded_range(
    node: Node | None, start: bytes, end: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    if node is None:
        return iter(())
    if not start and end is None:
        return items_of(node)
    stop = len(node.suffixes) if end is None else lower_bound(node, end)
    return ((key_at(node, at), value_at(node, at)) for at in range(lower_bound(node, start), stop))
