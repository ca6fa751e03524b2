"""Which commits of a line changed some keys: exact (ADR-0008, ADR-0047).

A commit lists its own keys, unless they are too many; then the difference to its parent, restricted
to the keys that are searched for, shows whether it changed one of them. Listed keys are only
candidates: a commit may have put a key again as it was.

The listed keys of most commits are in packs, one row for 512 commits. A pack names candidates too;
each is read, and its own list and state decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import COMMIT_TAIL_MAX
from lochan.codec.elements import same_state
from lochan.codec.key_packs import KeyPack
from lochan.index.difference import Difference
from lochan.index.layers import diff, find_many
from lochan.index.source import NodeSource
from lochan.kernel.key_packs import OwnKeys
from lochan.kernel.views import CommitView

if TYPE_CHECKING:
    # It has the packs that are searched here.
    from lochan.kernel.context import RepositoryContext


class SearchedKeys(msgspec.Struct, frozen=True):
    """Keys of files: some by name, and ranges [start, end); of these those that `covers` has."""

    keys: Sequence[bytes]
    ranges: Sequence[tuple[bytes, bytes | None]]
    covers: Callable[[bytes], bool] | None = None

    def candidates(self, own: Sequence[bytes]) -> list[bytes]:
        """Returns those of the ascending own keys of a commit that are searched for."""
        covers = self.covers
        return [
            own[at]
            for first, end in self._found(own)
            for at in range(first, end)
            if covers is None or covers(own[at])
        ]

    def has_in_ranges(self, own: Sequence[bytes]) -> bool:
        """Returns whether one of the ascending own keys of a commit is in a range."""
        for start, end in self.ranges:
            at = bisect_left(own, start)
            if at < len(own) and (end is None or own[at] < end):
                return True
        return False

    def places(self, pack: KeyPack) -> list[int]:
        """Returns the places of the commits of a pack that may have changed a key, in order."""
        keys, covers = pack.keys, self.covers
        found = set(pack.unlisted)
        for first, end in self._found(keys):
            if covers is None:
                found.update(pack.places_of(first, end))
                continue
            for at in range(first, end):
                if covers(keys[at]):
                    found.update(pack.places_of(at, at + 1))
        return sorted(found)

    def spans(self) -> list[tuple[bytes, bytes | None]]:
        """Returns everything as ranges."""
        return [*((key, key + b"\0") for key in self.keys), *self.ranges]

    def _found(self, keys: Sequence[bytes]) -> Iterator[tuple[int, int]]:
        """Yields the numbers [first, end) of those of some ascending keys that are searched for."""
        count = len(keys)
        for key in self.keys:
            at = bisect_left(keys, key)
            if at < count and keys[at] == key:
                yield at, at + 1
        for start, end in self.ranges:
            first = bisect_left(keys, start)
            if first < count:
                yield first, count if end is None else bisect_left(keys, end, first)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A search: for which keys, how many commits to find, how many to look at, where to end."""

    wanted: SearchedKeys
    found_max: int
    scanned_max: int
    last: ObjId | None = None
    """The search ends with this commit, if it is on the line."""


class FoundCommits(msgspec.Struct, frozen=True):
    """Commits that changed a key, newest first, and where the search goes on, None at its end."""

    commits: list[CommitView]
    further: ObjId | None


class _Part(msgspec.Struct, frozen=True):
    """Some commits of a line, newest first, and the places of candidates among them."""

    commits: KeyPack | Sequence[ObjId]
    candidates: Sequence[int]
    parent: ObjId

    def id_at(self, place: int) -> ObjId:
        """Returns the commit at a place."""
        commits = self.commits
        return commits.id_at(place) if isinstance(commits, KeyPack) else commits[place]

    def find_id(self, place: int) -> ObjId | None:
        """Returns the commit at a place, or the one that follows; None behind the first commit."""
        if place < len(self.commits):
            return self.id_at(place)
        return None if self.parent == EMPTY_ID else self.parent

    def find_place(self, obj_id: ObjId) -> int | None:
        """Returns the place of a commit, None if it is not here."""
        commits = self.commits
        if isinstance(commits, KeyPack):
            return commits.find_place(obj_id)
        return commits.index(obj_id) if obj_id in commits else None


def search_line(context: RepositoryContext, start: CommitView, search: Search) -> FoundCommits:
    """Goes through a commit and its first-parent ancestors until enough was found or looked at.

    Where a search ends because it has looked at enough, the next one begins with a pack.
    """
    found: list[CommitView] = []
    left = _scanned_max(start.sequence, search.scanned_max, context.key_packs.commits)
    for part in _parts(context, start, search.wanted):
        last = None if search.last is None else part.find_place(search.last)
        count = len(part.commits) if last is None else last + 1
        for place in part.candidates:
            if place >= min(count, left):
                break
            view = context.views.load(part.id_at(place))
            if not _changed(context, view, search.wanted):
                continue
            found.append(view)
            if len(found) == search.found_max:
                return FoundCommits(found, None if place == last else part.find_id(place + 1))
        if last is not None and count <= left:
            return FoundCommits(found, None)
        if count >= left:
            return FoundCommits(found, part.find_id(left))
        left -= count
    return FoundCommits(found, None)


def _scanned_max(sequence: int, scanned_max: int, run: int) -> int:
    """Returns how many commits to look at, from that sequence on: up to a pack if possible."""
    end = -(-(sequence - scanned_max) // run) * run
    return sequence - end if 0 < end < sequence else scanned_max


def _parts(context: RepositoryContext, start: CommitView, wanted: SearchedKeys) -> Iterator[_Part]:
    """Yields the commits of a line, newest first: by packs where there are some, else by commits.

    A pack may begin a run, and may follow another pack.
    """
    run = context.key_packs.commits
    obj_id, sequence = start.obj_id, start.sequence
    line = context.key_lines.iterate(obj_id)
    behind_pack = False
    while obj_id != EMPTY_ID:
        pack = None
        if behind_pack or sequence % run == 0:
            pack = context.key_packs.find(obj_id, sequence)
        if pack is not None:
            count, obj_id = len(pack), ObjId(pack.parent)
            yield _Part(pack, wanted.places(pack), obj_id)
            line = context.key_lines.iterate(obj_id)
        else:
            count = sequence % run or run
            for part in _read_parts(islice(line, count), wanted):
                obj_id = part.parent
                yield part
        sequence -= count
        behind_pack = pack is not None


def _read_parts(line: Iterable[tuple[ObjId, OwnKeys]], wanted: SearchedKeys) -> Iterator[_Part]:
    """Yields commits up to the next candidate, or as many as are read together."""
    has_none = frozenset(wanted.keys).isdisjoint
    commits: list[ObjId] = []
    parent = EMPTY_ID
    for obj_id, found in line:
        commits.append(obj_id)
        own, parent = found.own, found.parent
        # Most commits are passed over by these two, so they are quicker than `candidates`.
        is_passed = own is not None and has_none(own) and not wanted.has_in_ranges(own)
        if not is_passed and (own is None or wanted.candidates(own)):
            yield _Part(commits, (len(commits) - 1,), parent)
            commits = []
        elif len(commits) == COMMIT_TAIL_MAX:
            yield _Part(commits, (), parent)
            commits = []
    if commits:
        yield _Part(commits, (), parent)


def _changed(context: RepositoryContext, view: CommitView, wanted: SearchedKeys) -> bool:
    """Returns whether a commit made another file of one of the keys than its parent has."""
    parent, nodes = context.views.load(view.parent), context.nodes
    own = None if view.body is None else view.body.own
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
