"""Nodes in a dictionary, checked like a real store's and counted: what an index test reads from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.codec.objects import check_object_id
from lochan.index.node import NewNode


class MemoryNodes:
    """The bytes of nodes by their ids; remembers how many ids each fetch asked for."""

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
        """How many ids all fetches together asked for."""
        return sum(self.fetches)

    def forget_fetches(self) -> None:
        """Starts counting anew."""
        self.fetches.clear()
