"""The latest commits of a branch, in memory: which they are, and when a key was touched last.

Most writers expect a commit that is a few dozen behind the head. A publisher that has published
these commits itself knows, without a read, that they are in the history of the branch, and which
keys have not changed since: those are looked up once, not twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from lochan.base.ids import ObjId
from lochan.base.limits.commits import RECENT_COMMITS_MAX, RECENT_KEYS_MAX
from lochan.kernel.views import CommitView


class Recent:
    """What was published on one branch lately; two generations, the older one dropped whole."""

    def __init__(self, head: CommitView) -> None:
        self.head = head.obj_id
        self._ids: dict[ObjId, int] = {head.obj_id: head.sequence}
        self._touched: dict[bytes, int] = {}
        self._older_ids: dict[ObjId, int] = {}
        self._older_touched: dict[bytes, int] = {}
        self._steady: dict[bytes, bytes | None] = {}

    def add(self, view: CommitView) -> None:
        """Adds the commit that follows the head; any other commit clears everything before."""
        own = None if view.body is None else view.body.own
        if view.parent != self.head or own is None or len(own) > RECENT_KEYS_MAX:
            self._clear_to(view)
            return
        sequence = view.sequence
        if len(self._ids) >= RECENT_COMMITS_MAX or len(self._touched) >= RECENT_KEYS_MAX:
            self._older_ids, self._ids = self._ids, {}
            self._older_touched, self._touched = self._touched, {}
        self.head = view.obj_id
        self._ids[view.obj_id] = sequence
        for key in own:
            self._touched[key] = sequence
            self._steady.pop(key, None)

    def keep(self, key: bytes, element: bytes | None) -> None:
        """Remembers what a key holds at the head, until a commit touches it."""
        if len(self._steady) >= RECENT_KEYS_MAX:
            self._steady = {}
        self._steady[key] = element

    def find_kept(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Returns what is remembered of these keys."""
        kept = self._steady
        return {key: kept[key] for key in keys if key in kept}

    def knows(self, obj_id: ObjId) -> bool:
        """Returns whether a commit is one of these; everything after it is known then, too."""
        return obj_id in self._ids or obj_id in self._older_ids

    def last_touched(self, key: bytes) -> int:
        """Returns the sequence of the last of these commits that touched a key, 0 if none did."""
        return self._touched.get(key) or self._older_touched.get(key, 0)

    def _clear_to(self, view: CommitView) -> None:
        self.head = view.obj_id
        self._ids, self._older_ids = {view.obj_id: view.sequence}, {}
        self._touched, self._older_touched = {}, {}
        self._steady = {}
