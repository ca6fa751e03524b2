"""A bounded map in memory; what it holds never changes, so it needs no coherency."""

from __future__ import annotations

from typing import Generic, TypeVar

from lochan.base.ids import ObjId

_Held = TypeVar("_Held")


class BoundedCache(Generic[_Held]):
    """A bounded map that forgets what was not used for long.

    Two generations: what is used moves to the young one, and when that holds half the bytes, the
    old one is dropped whole. That is as good as least-recently-used to a factor of two and costs
    one dictionary lookup.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._young: dict[ObjId, tuple[_Held, int]] = {}
        self._old: dict[ObjId, tuple[_Held, int]] = {}
        self._young_bytes = 0

    def find(self, obj_id: ObjId) -> _Held | None:
        """Returns what is held under the id, None if it is not."""
        held = self._young.get(obj_id)
        if held is None:
            held = self._old.get(obj_id)
            if held is None:
                return None
            self.keep(obj_id, *held)
        return held[0]

    def keep(self, obj_id: ObjId, held: _Held, weight: int) -> None:
        """Holds something that weighs so many bytes."""
        if obj_id in self._young:
            return
        if self._young_bytes + weight > self.bytes_max // 2:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young[obj_id] = (held, weight)
        self._young_bytes += weight
