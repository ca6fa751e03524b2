"""Which commits of a line changed some keys: exact, without a filter (ADR-0008).

A commit lists its own keys, unless they are too many; then the difference to its parent, restricted
to the keys that are searched for, shows whether it changed one of them. Listed keys are only
candidates: a commit may have put a key again as it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.codec.elements import same_state
from lochan.index.difference import Difference
from lochan.index.layers import diff, find_many
from lochan.index.source import NodeSource
from lochan.kernel.views import CommitView
from lochan.persist.cache import BoundedCache, Caches
from lochan.persist.objects import Objects

if TYPE_CHECKING:
    # It has the lines of this module.
    from lochan.kernel.context import RepositoryContext

# Measured: what a commit takes beside its keys, and each key beside its bytes.
_LINE_BYTES: Final = 200
_OWN_KEY_BYTES: Final = 56


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


class OwnKeys(msgspec.Struct, frozen=True, gc=False):
    """What a search remembers of a commit: its own keys if it lists them, and its parent."""

    own: tuple[bytes, ...] | None
    parent: ObjId


class KeyLines:
    """The own keys of commits, along first parents; those that were read are in memory."""

    def __init__(self, objects: Objects, caches: Caches) -> None:
        self._objects = objects
        self._cache: BoundedCache[OwnKeys] = caches.values.cache(_weigh)

    def iterate(self, start: ObjId) -> Iterator[tuple[ObjId, OwnKeys]]:
        """Yields a commit and its ancestors, newest first."""
        find = self._cache.find
        read: dict[ObjId, OwnKeys] = {}
        ahead: list[ObjId] = []
        obj_id = start
        while obj_id != EMPTY_ID:
            found = find(obj_id)
            if found is None:
                found = read.get(obj_id)
            if found is None:
                # The ancestors of the last commit that was read, or else this one alone.
                ids = ahead if ahead[:1] == [obj_id] else [obj_id]
                read, ahead = self._read(ids)
                found = read[obj_id]
            yield obj_id, found
            obj_id = found.parent

    def _read(self, ids: Sequence[ObjId]) -> tuple[dict[ObjId, OwnKeys], list[ObjId]]:
        """Reads commits that follow each other; returns the ancestors of the last one too."""
        lines = self._objects.fetch_lines(ids)
        ahead = lines[-1].ancestors()
        # The tail of the first commit is empty: its parent is the empty commit.
        parents = [*ids[1:], ahead[0] if ahead else EMPTY_ID]
        read = {
            obj_id: OwnKeys(line.own, parent)
            for obj_id, line, parent in zip(ids, lines, parents, strict=True)
        }
        for obj_id, found in read.items():
            self._cache.keep(obj_id, found)
        return read, [one for one in ahead if one != EMPTY_ID]


def _weigh(found: OwnKeys) -> int:
    """Returns what is in memory for a commit."""
    own = found.own or ()
    return _LINE_BYTES + sum(map(len, own)) + len(own) * _OWN_KEY_BYTES


def iterate_changing(
    context: RepositoryContext, start: ObjId, wanted: SearchedKeys
) -> Iterator[tuple[ObjId, CommitView | None]]:
    """Yields each commit of a line, newest first; with its view if it changed one of the keys."""
    touches_none, has_ranges = frozenset(wanted.keys).isdisjoint, bool(wanted.ranges)
    for obj_id, found in context.key_lines.iterate(start):
        own = found.own
        if own is not None and touches_none(own) and not (has_ranges and wanted.candidates(own)):
            yield obj_id, None
            continue
        view = context.views.load(obj_id)
        yield obj_id, view if _changed(context, view, own, wanted) else None


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
