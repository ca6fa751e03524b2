"""The own keys of commits along first parents: commit by commit, and in packs (ADR-0047).

A *run* is what one pack contains: the commits from one whose sequence is a multiple of 512 down to
the next such commit, which is left out. If their keys are too many for one row, several packs
follow each other, each named by its newest commit.

A pack is built from the commits alone, so every server builds the same one, however often. Neither
commits nor searches build packs; they only note runs, in memory:

1. A publisher notes a run that it has completed; a search notes one whose pack is missing.
2. The next sweep builds the packs of runs that were noted, each by one write. (A crash before it
   loses the notes. Then searches read the commits of these runs one by one, and note them again.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.storage import (
    KEY_PACK_BYTES_MAX,
    KEY_PACKS_BUILT_MAX,
    KEY_PACKS_DUE_MAX,
)
from lochan.codec.key_packs import KeyPack, KeyPackBuilder
from lochan.kernel.views import CommitView, Views
from lochan.persist.cache import BoundedCache, Caches
from lochan.persist.key_packs import KeyPackRows
from lochan.persist.objects import Objects

# Measured: what a commit takes beside its keys, and each key beside its bytes.
_LINE_BYTES: Final = 200
_OWN_KEY_BYTES: Final = 56
_PACK_BYTES: Final = 600
_PACK_KEY_BYTES: Final = 41


class OwnKeys(msgspec.Struct, frozen=True, gc=False):
    """What a search remembers of a commit: its own keys if it lists them, and its parent."""

    own: tuple[bytes, ...] | None
    parent: ObjId


class KeyLines:
    """The own keys of commits, along first parents; those that were read are in memory."""

    def __init__(self, objects: Objects, views: Views, caches: Caches) -> None:
        self._objects = objects
        self._views = views
        self._cache: BoundedCache[OwnKeys] = caches.values.cache(_weigh)

    def iterate(self, start: ObjId, *, keep: bool = True) -> Iterator[tuple[ObjId, OwnKeys]]:
        """Yields a commit and its ancestors, newest first; `keep` holds them in memory."""
        read: dict[ObjId, OwnKeys] = {}
        ahead: list[ObjId] = []
        obj_id = start
        while obj_id != EMPTY_ID:
            found = read.get(obj_id)
            if found is None:
                found = self._find(obj_id)
            if found is None:
                # The ancestors of the last commit that was read, or else this one alone.
                ids = ahead if ahead[:1] == [obj_id] else [obj_id]
                read, ahead = self._read(ids, keep=keep)
                found = read[obj_id]
            yield obj_id, found
            obj_id = found.parent

    def _find(self, obj_id: ObjId) -> OwnKeys | None:
        found = self._cache.find(obj_id)
        if found is None:
            view = self._views.find_cached(obj_id)
            if view is not None and view.body is not None:
                return OwnKeys(view.body.own, view.parent)
        return found

    def _read(
        self, ids: Sequence[ObjId], *, keep: bool
    ) -> tuple[dict[ObjId, OwnKeys], list[ObjId]]:
        """Reads commits that follow each other; returns the ancestors of the last one too."""
        lines = self._objects.fetch_lines(ids)
        ahead = lines[-1].ancestors()
        # The tail of the first commit is empty: its parent is the empty commit.
        parents = [*ids[1:], ahead[0] if ahead else EMPTY_ID]
        read = {
            obj_id: OwnKeys(line.own, parent)
            for obj_id, line, parent in zip(ids, lines, parents, strict=True)
        }
        if keep:
            for obj_id, found in read.items():
                self._cache.keep(obj_id, found)
        return read, [one for one in ahead if one != EMPTY_ID]


def _weigh(found: OwnKeys) -> int:
    """Returns what is in memory for a commit."""
    own = found.own or ()
    return _LINE_BYTES + sum(map(len, own)) + len(own) * _OWN_KEY_BYTES


def _weigh_pack(pack: KeyPack) -> int:
    """Returns what is in memory for a pack."""
    sizes = len(pack.ids) + len(pack.ends) + len(pack.places)
    return _PACK_BYTES + sizes + sum(map(len, pack.keys)) + len(pack.keys) * _PACK_KEY_BYTES


class KeyPacks:
    """The packs of one repository, and the runs whose packs are to be built; for all threads."""

    def __init__(self, lines: KeyLines, rows: KeyPackRows, caches: Caches, commits: int) -> None:
        self.commits = commits
        """How many commits a run has."""

        self._lines = lines
        self._rows = rows
        self._cache: BoundedCache[KeyPack] = caches.values.cache(_weigh_pack)
        self._due: dict[ObjId, int] = {}

    def find(self, newest: ObjId, sequence: int) -> KeyPack | None:
        """Returns the pack that begins with a commit; one that is missing is noted."""
        pack = self._cache.find(newest)
        if pack is None:
            pack = self._rows.find(newest, sequence)
            if pack is None:
                self._note(newest, sequence)
            else:
                self._cache.keep(newest, pack)
        return pack

    def note(self, made: CommitView) -> None:
        """Takes a commit that was just published; notes the run that it completes, if any."""
        if made.sequence % self.commits == 0:
            self._note(made.obj_id, made.sequence)

    @property
    def has_due(self) -> bool:
        """Whether a run was noted and its packs were not built yet."""
        return bool(self._due)

    def build_due(self, runs_max: int = KEY_PACKS_BUILT_MAX) -> bool:
        """Builds the packs of runs that were noted; returns whether more of them are left.

        A run that cannot be read, or whose packs cannot be written, is noted by the next search.
        """
        for _ in range(runs_max):
            try:
                newest, sequence = self._due.popitem()
            except KeyError:
                return False
            self._build_run(newest, sequence)
        return self.has_due

    def _note(self, newest: ObjId, sequence: int) -> None:
        if len(self._due) < KEY_PACKS_DUE_MAX:
            self._due[newest] = sequence

    def _build_run(self, newest: ObjId, sequence: int) -> None:
        """Stores the packs from a commit to the end of its run, except those that are there."""
        end = (sequence - 1) // self.commits * self.commits
        while sequence > end and newest != EMPTY_ID:
            pack = self._rows.find(newest, sequence)
            if pack is None:
                pack = build_key_pack(self._lines, newest, sequence, sequence - end)
                self._rows.store(newest, pack)
            newest, sequence = ObjId(pack.parent), sequence - len(pack)


def build_key_pack(lines: KeyLines, newest: ObjId, sequence: int, commits: int) -> KeyPack:
    """Returns the pack of so many commits, or of fewer if their keys have too many bytes."""
    builder = KeyPackBuilder(sequence, KEY_PACK_BYTES_MAX)
    for obj_id, found in islice(lines.iterate(newest, keep=False), commits):
        if not builder.add(obj_id, found.own, found.parent):
            break
    return builder.build()
