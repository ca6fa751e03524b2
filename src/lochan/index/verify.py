"""A full check of a tree: it must be exactly what its own content builds.

Because the same content always gives the same tree, one comparison of roots covers order,
boundaries, counts, prefixes and the shape of every level.
"""

from __future__ import annotations

from collections.abc import Iterator

from lochan.base.checks import check_stored
from lochan.base.ids import ObjId
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.read import iterate
from lochan.index.source import NodeSource


def check_tree(
    source: NodeSource, rule: BoundaryRule, width: int | None, root: ObjId | None
) -> int:
    """Reads every element and raises Corrupt unless the tree is the canonical one; counts them."""
    count = 0

    def counted() -> Iterator[tuple[bytes, bytes]]:
        nonlocal count
        for item in iterate(source, root):
            count += 1
            yield item

    rebuilt = build_tree(rule, width, counted(), lambda _: None)
    check_stored(rebuilt == root, "a tree is the one that its content builds")
    return count
