"""Commits as the kernel sees them: decoded, with the indexes of both universes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from lochan.base.errors import NewerFormat, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe
from lochan.codec.commits import CommitObject
from lochan.index.layers import EMPTY_INDEX, Index
from lochan.index.spill import decode_embedded
from lochan.persist.cache import Caches
from lochan.persist.objects import Objects

# Measured: what a decoded commit takes beside the texts and keys in it (the ids of its tail,
# structs, tuples), what each of its own keys takes beside its bytes, and how many times its
# embedded indexes are in memory: as bytes, and decoded.
_VIEW_BYTES: Final = 3_000
_OWN_KEY_BYTES: Final = 56
_EMBEDDED_FACTOR: Final = 3
_UNIVERSES: Final = frozenset(map(int, Universe))


class CommitView(msgspec.Struct, frozen=True, gc=False):
    """A commit and its indexes; `body` is None for the empty commit, which is not stored."""

    obj_id: ObjId
    body: CommitObject | None
    tables: Index
    files: Index

    @property
    def sequence(self) -> int:
        """How many first-parent commits there are up to this one."""
        return 0 if self.body is None else self.body.sequence

    @property
    def generation(self) -> int:
        """One more than the largest of all parents."""
        return 0 if self.body is None else self.body.generation

    @property
    def merges(self) -> int:
        """How many merges there are on the first-parent line up to this one."""
        return 0 if self.body is None else self.body.merges

    @property
    def parent(self) -> ObjId:
        """The first parent; the empty commit is its own."""
        return EMPTY_ID if self.body is None else ObjId(self.body.parents[0])

    def index(self, universe: Universe) -> Index:
        """Returns the index of a universe."""
        return self.tables if universe is Universe.TABLES else self.files


EMPTY_VIEW: Final = CommitView(EMPTY_ID, None, EMPTY_INDEX, EMPTY_INDEX)


def view_of(obj_id: ObjId, body: CommitObject) -> CommitView:
    """Decodes the embedded indexes of a commit."""
    if any(stored.layers or stored.universe not in _UNIVERSES for stored in body.indexes):
        # To leave a layer or a universe out would show a commit without some of its keys.
        raise NewerFormat(
            f"commit {obj_id.hex()} has an index that this Lochan does not know: newer format, "
            "upgrade Lochan"
        )
    found = {Universe.TABLES: EMPTY_INDEX, Universe.FILES: EMPTY_INDEX}
    for stored in body.indexes:
        root = None if stored.root is None else ObjId(stored.root)
        found[Universe(stored.universe)] = Index(decode_embedded(stored.embedded), root)
    return CommitView(obj_id, body, found[Universe.TABLES], found[Universe.FILES])


class CommitSource(Protocol):
    """Where the algorithms on history get commits from."""

    def load(self, obj_id: ObjId) -> CommitView:
        """Returns a commit that something refers to."""
        ...

    def load_many(self, ids: Sequence[ObjId]) -> list[CommitView]:
        """Returns commits in the order of their ids."""
        ...


class CommitOverlay:
    """A CommitSource in front of another, with the commits of a chain that is not published yet.

    A proposal of a chain may be planned on a commit that the same chain is about to publish. All
    that it reads about history must go through here, or it would see the branch without them.
    """

    def __init__(self, below: Views) -> None:
        self._below = below
        self._made: dict[ObjId, CommitView] = {}

    def add(self, view: CommitView) -> None:
        """Takes a commit that was just made."""
        self._made[view.obj_id] = view

    def load(self, obj_id: ObjId) -> CommitView:
        """Returns a commit, published or not."""
        return self._made.get(obj_id) or self._below.load(obj_id)

    def load_many(self, ids: Sequence[ObjId]) -> list[CommitView]:
        """Returns commits in order; only those that are not here are fetched below."""
        made = self._made
        if not made:
            return self._below.load_many(ids)
        missing = [obj_id for obj_id in ids if obj_id not in made]
        loaded = dict(zip(missing, self._below.load_many(missing), strict=True))
        return [made.get(obj_id) or loaded[obj_id] for obj_id in ids]

    def get_named(self, obj_id: ObjId) -> CommitView:
        """Returns a commit that a user named by its hash; ReferenceNotFound if there is none."""
        return self._made.get(obj_id) or self._below.get_named(obj_id)


class Views:
    """Loads commits, from memory if possible; what was just published is remembered."""

    def __init__(self, objects: Objects, caches: Caches) -> None:
        self._objects = objects
        self._cache = caches.commits.cache(_weigh)
        self.reads = 0

    def load(self, obj_id: ObjId) -> CommitView:
        """Returns a commit that something refers to."""
        return self.find_cached(obj_id) or self.load_many([obj_id])[0]

    def load_many(self, ids: Sequence[ObjId]) -> list[CommitView]:
        """Returns commits in the order of their ids; one fetch covers all that are not at hand."""
        found = [self.find_cached(obj_id) for obj_id in ids]
        missing = [obj_id for obj_id, view in zip(ids, found, strict=True) if view is None]
        if not missing:
            return [view for view in found if view is not None]
        self.reads += len(missing)
        bodies = self._objects.fetch_commits(missing)
        fetched = {
            obj_id: view_of(obj_id, body) for obj_id, body in zip(missing, bodies, strict=True)
        }
        for view in fetched.values():
            self.remember(view)
        return [
            fetched[obj_id] if view is None else view
            for obj_id, view in zip(ids, found, strict=True)
        ]

    def get_named(self, obj_id: ObjId) -> CommitView:
        """Returns a commit that a user named by its hash; ReferenceNotFound if there is none."""
        view = self.find_cached(obj_id)
        if view is None:
            self.reads += 1
            body = self._objects.find_commit(obj_id)
            if body is None:
                raise ReferenceNotFound(f"Commit '{obj_id.hex()}' not found")
            view = view_of(obj_id, body)
            self.remember(view)
        return view

    def remember(self, view: CommitView) -> None:
        """Keeps a commit in memory."""
        if view.body is not None:
            self._cache.keep(view.obj_id, view)

    def find_cached(self, obj_id: ObjId) -> CommitView | None:
        """Returns a commit if it is in memory."""
        return EMPTY_VIEW if obj_id == EMPTY_ID else self._cache.find(obj_id)


def _weigh(view: CommitView) -> int:
    """Returns what a decoded commit takes in memory."""
    body = view.body
    if body is None:
        return 0
    own = body.own or ()
    weight = _VIEW_BYTES + len(body.message) + sum(map(len, own)) + len(own) * _OWN_KEY_BYTES
    for index in body.indexes:
        weight += _EMBEDDED_FACTOR * len(index.embedded)
    for _, values in body.headers + body.hidden:
        weight += sum(map(len, values))
    return weight
