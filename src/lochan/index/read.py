"""Reads a tree: bulk lookup and ordered pages, level by level, touched nodes only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from lochan.base.checks import check
from lochan.base.ids import ObjId
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.index.node import (
    Node,
    child_at,
    child_count_at,
    find_value,
    items_of,
    key_at,
    lower_bound,
)
from lochan.index.source import NodeSource


def find_one(source: NodeSource, root: ObjId | None, key: bytes) -> bytes | None:
    """Returns the value of one key, None if the tree does not hold it."""
    if root is None:
        return None
    node = source.load_node(root)
    while node.level:
        slot = lower_bound(node, key)
        if slot == len(node.suffixes):
            return None
        if node.level == 1:
            return source.find_in_leaf(child_at(node, slot), key)
        node = source.load_node(child_at(node, slot))
    return find_value(node, key)


def find_many(source: NodeSource, root: ObjId | None, keys: Sequence[bytes]) -> list[bytes | None]:
    """Returns the values of keys in ascending order; one fetch per level, whatever their number."""
    if len(keys) == 1:
        return [find_one(source, root, keys[0])]
    found: list[bytes | None] = [None] * len(keys)
    if root is None or not keys:
        return found
    groups = [(source.load_node(root), 0, len(keys))]
    while groups and groups[0][0].level:
        routes = [route for group in groups for route in route_keys(keys, *group)]
        nodes = source.load_nodes([obj_id for obj_id, _, _ in routes])
        groups = [(node, low, high) for node, (_, low, high) in zip(nodes, routes, strict=True)]
    for node, low, high in groups:
        for at in range(low, high):
            found[at] = find_value(node, keys[at])
    return found


def route_keys(
    keys: Sequence[bytes], node: Node, low: int, high: int
) -> Iterator[tuple[ObjId, int, int]]:
    """Divides keys[low:high] among the children that may hold them; drops keys after the last."""
    at = low
    while at < high:
        slot = lower_bound(node, keys[at])
        if slot == len(node.suffixes):
            return
        after = bisect_right(keys, key_at(node, slot), at, high)
        yield child_at(node, slot), at, after
        at = after


def read_page(
    source: NodeSource, root: ObjId | None, start: bytes, end: bytes | None, limit: int
) -> list[tuple[bytes, bytes]]:
    """Returns the first `limit` elements of [start, end), in order.

    The counts in inner nodes determine how many children are needed, so each level is one fetch
    and at most one child too many is read.
    """
    check(0 < limit, "a page has at least one element")
    if root is None or (end is not None and end <= start):
        return []
    nodes = [source.load_node(root)]
    while nodes and nodes[0].level:
        nodes = source.load_nodes(_children_for_page(nodes, start, end, limit))
    page: list[tuple[bytes, bytes]] = []
    for node in nodes:
        first = lower_bound(node, start)
        stop = len(node.suffixes) if end is None else lower_bound(node, end)
        page += islice(items_of(node), first, stop)
        if len(page) >= limit:
            break
    return page[:limit]


def iterate(
    source: NodeSource, root: ObjId | None, start: bytes = b"", end: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields all elements of [start, end), in order, page by page."""
    while page := read_page(source, root, start, end, PAGE_ENTRIES_MAX):
        yield from page
        if len(page) < PAGE_ENTRIES_MAX:
            return
        start = page[-1][0] + b"\0"


def _children_for_page(
    nodes: Sequence[Node], start: bytes, end: bytes | None, limit: int
) -> list[ObjId]:
    children: list[ObjId] = []
    # The first child may hold as little as one element of the range; only later ones count whole.
    sure = 0
    for node in nodes:
        count = len(node.suffixes)
        first = lower_bound(node, start)
        stop = count if end is None else min(lower_bound(node, end) + 1, count)
        for slot in range(first, stop):
            if sure >= limit:
                return children
            sure += child_count_at(node, slot) if children else 1
            children.append(child_at(node, slot))
    return children
