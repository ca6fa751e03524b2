"""Nodes of an index in a dictionary, and a full check of a tree; for tests of the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lochan.base.checks import check_stored
from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.codec.objects import check_object_id
from lochan.index.boundary import BoundaryRule
from lochan.index.build import build_tree
from lochan.index.node import NewNode
from lochan.index.read import iterate
from lochan.index.source import NodeSource


class MemoryNodes:
    """The bytes of nodes by their ids; `fetches` has the number of ids of each fetch."""

    def __init__(self) -> None:
        self.raws: dict[ObjId, bytes] = {}
        self.fetches: list[int] = []

    def keep(self, new: NewNode) -> None:
        """Stores one node; fits as the sink of a build."""
        self.raws[new.obj_id] = new.raw

    def keep_all(self, nodes: Iterable[NewNode]) -> None:
        """Stores the nodes of an edit."""
        for new in nodes:
            self.keep(new)

    def fetch_many(self, ids: Sequence[ObjId]) -> list[bytes]:
        """Returns the bytes of all ids, in their order; a missing or changed one is Corrupt."""
        self.fetches.append(len(ids))
        found = []
        for obj_id in ids:
            raw = self.raws.get(obj_id)
            if raw is None:
                raise Corrupt(f"object {obj_id.hex()} is missing though something refers to it")
            check_object_id(obj_id, raw)
            found.append(raw)
        return found

    @property
    def fetched_ids(self) -> int:
        """The number of ids of all fetches together."""
        return sum(self.fetches)

    def forget_fetches(self) -> None:
        """Starts counting anew."""
        self.fetches.clear()


def check_tree(
    source: NodeSource, rule: BoundaryRule, width: int | None, root: ObjId | None
) -> int:
    """Raises Corrupt unless the tree is exactly the one that its elements build; counts them.

    Equal elements always give the same tree, so one comparison of roots covers order, boundaries,
    counts, prefixes and the shape of every level.
    """
    count = 0

    def counted() -> Iterator[tuple[bytes, bytes]]:
        nonlocal count
        for item in iterate(source, root):
            count += 1
            yield item

    rebuilt = build_tree(rule, width, counted(), lambda _: None)
    check_stored(rebuilt == root, "a tree is the one that its elements build")
    return count
