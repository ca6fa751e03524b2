"""Which commits of a line changed some keys: exact, without a filter (ADR-0008).

A commit lists its own keys, unless they are too many; then the difference to its parent, restricted
to the keys that are searched for, shows whether it changed one of them. Listed keys are only
candidates: a commit may have put a key again as it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.codec.elements import same_state
from lochan.index.difference import Difference
from lochan.index.layers import diff, find_many
from lochan.index.source import NodeSource
from lochan.kernel.context import RepositoryContext
from lochan.kernel.views import CommitView


class SearchedKeys(msgspec.Struct, frozen=True):
    """Keys of files: some by name, and ranges [start, end); of these those that `covers` has."""

    keys: Sequence[bytes]
    ranges: Sequence[tuple[bytes, bytes | None]]
    covers: Callable[[bytes], bool] | None = None

    def candidates(self, own: Sequence[bytes]) -> list[bytes]:
        """Returns those of the ascending own keys of a commit that are searched for."""
        found = []
        count = len(own)
        for key in self.keys:
            at = bisect_left(own, key)
            if at < count and own[at] == key:
                found.append(key)
        for start, end in self.ranges:
            for key in islice(own, bisect_left(own, start), None):
                if end is not None and key >= end:
                    break
                found.append(key)
        covers = self.covers
        return found if covers is None else [key for key in found if covers(key)]

    def spans(self) -> list[tuple[bytes, bytes | None]]:
        """Returns everything as ranges."""
        return [*((key, key + b"\0") for key in self.keys), *self.ranges]


def iterate_changing(
    context: RepositoryContext, start: ObjId, wanted: SearchedKeys
) -> Iterator[ObjId | tuple[ObjId, CommitView]]:
    """Yields the id of each commit of a line, newest first; with its view if it changed a key."""
    objects = context.objects
    ids = [start]
    while ids:
        oldest = None
        stored = [obj_id for obj_id in ids if obj_id != EMPTY_ID]
        for obj_id, line in zip(stored, objects.fetch_lines(stored), strict=True):
            oldest = line
            if line.own is not None and not wanted.candidates(line.own):
                yield obj_id
                continue
            view = context.views.load(obj_id)
            yield (obj_id, view) if _changed(context, view, line.own, wanted) else obj_id
        ids = [] if oldest is None else oldest.ancestors()


def _changed(
    context: RepositoryContext,
    view: CommitView,
    own: Sequence[bytes] | None,
    wanted: SearchedKeys,
) -> bool:
    """Returns whether a commit made another file of one of the keys than its parent has."""
    parent, nodes = context.views.load(view.parent), context.nodes
    if own is not None:
        keys = sorted(set(wanted.candidates(own)))
        before = find_many(nodes, parent.files, keys)
        after = find_many(nodes, view.files, keys)
        sides = zip(keys, before, after, strict=True)
        return not all(same_state(*one) for one in sides)
    return any(
        wanted.covers is None or wanted.covers(one.key)
        for start, end in wanted.spans()
        for one in changed_files(nodes, parent, view, start, end)
    )


def changed_files(
    nodes: NodeSource, left: CommitView, right: CommitView, start: bytes, end: bytes | None
) -> Iterator[Difference]:
    """Yields the files of [start, end) that differ between two commits, by their identity."""
    for one in diff(nodes, left.files, right.files, start, end):
        if not same_state(one.key, one.left, one.right):
            yield one
