"""Building a commit on a head: check what the plan expects, advance both indexes, make the object.

Nothing is written here. The result carries every object that must be stored with the commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

import msgspec

from lochan.base.checks import check
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe, ordered
from lochan.base.limits.commits import (
    COMMIT_OWN_BYTES_MAX,
    COMMIT_OWN_KEYS_MAX,
    COMMIT_TAIL_MAX,
    RECENT_KEYS_MAX,
)
from lochan.base.ports import Clock
from lochan.codec.commits import (
    CommitObject,
    OperationsDigest,
    UniverseIndex,
    commit_id,
    encode_commit,
    jump_sequence,
)
from lochan.codec.elements import same_file
from lochan.codec.rows import ReferenceRow
from lochan.index.boundary import BoundaryRule
from lochan.index.build import NodeSink, build_tree
from lochan.index.bulk import TreeMerge
from lochan.index.edit import edit_tree
from lochan.index.layers import SHAPES, Index, find_in_both, find_many, find_one, read_page
from lochan.index.node import Change, NewNode
from lochan.index.source import NodeSource, Overlay
from lochan.index.spill import advance, embedded_changes, spill_limit, surely_spills
from lochan.kernel.history import ancestor_at, is_ancestor, iterate_log
from lochan.kernel.plan import (
    BulkChanges,
    CommitPlan,
    Digested,
    Graft,
    check_plan,
    check_texts,
    checked_batches,
    find_conflicts,
    keys_conflict,
)
from lochan.kernel.reach import LineReach
from lochan.kernel.recent import Recent
from lochan.kernel.reliance import Check, Excuse, Lookup, Reliance, Watch
from lochan.kernel.views import CommitOverlay, CommitView, Views
from lochan.persist.staged import StagedRecords

_KEY: Final = itemgetter(0)
_TABLES_BEGIN: Final = bytes((Universe.TABLES,))

# The value of every key in the tree of own keys that a commit left as they were.
_MARK: Final = b"\0"


class Built(msgspec.Struct, frozen=True, gc=False):
    """A commit that is ready to be published, and everything it needs stored."""

    view: CommitView
    raw: bytes
    nodes: tuple[NewNode, ...]
    values: tuple[tuple[ObjId, bytes], ...]
    changes: Sequence[Change] = ()
    """All changes in ascending order; none after a graft, and without those that came in bulk."""

    def objects(self) -> list[tuple[ObjId, bytes]]:
        """Returns all objects to be stored, the commit last."""
        nodes = [(new.obj_id, new.raw) for new in self.nodes]
        return [*self.values, *nodes, (self.view.obj_id, self.raw)]


class Head(msgspec.Struct, frozen=True, gc=False):
    """A commit to plan on, published or not, and how to look up keys and history from it.

    Whatever a proposal reads about history it reads from here: `view` and the commits before it may
    be of the chain that is being planned, so the branch's published head is not the truth. `row`
    is the branch's row below the chain, without the sealed tokens that the chain has taken. A plan
    that is to be grafted onto later heads records in `reliance` what it reads here.
    """

    view: CommitView
    builder: Builder
    row: ReferenceRow
    records: StagedRecords | None = None
    """The staged records of the repository; None if nothing is published on this head."""

    reliance: Reliance | None = None

    def relies_on(self, keys: Sequence[bytes]) -> None:
        """Records keys that a plan has looked up in another way than by this head."""
        if self.reliance is not None:
            self.reliance.add_keys(keys)

    def watch(self, watch: Watch) -> None:
        """Records a read that has no keys of its own, see `Reliance`."""
        if self.reliance is not None:
            self.reliance.add_watch(watch)

    def excuse(self, excuse: Excuse) -> None:
        """Records which changes of keys leave the plan as it is, see `Reliance`."""
        if self.reliance is not None:
            self.reliance.add_excuse(excuse)

    def look_up_again(self, lookup: Lookup) -> None:
        """Records a read of very many keys, see `Reliance`."""
        if self.reliance is not None:
            self.reliance.add_lookup(lookup)

    def check_again(self, check: Check) -> None:
        """Records what has to hold on each later head that the plan is grafted onto."""
        if self.reliance is not None:
            self.reliance.add_check(check)

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        """Returns the elements of keys of both universes, None where there is none."""
        self.relies_on(keys)
        return self.builder.find(self.view, keys)

    def find_both(
        self, older: CommitView, keys: Sequence[bytes]
    ) -> tuple[Mapping[bytes, bytes | None], Mapping[bytes, bytes | None]]:
        """Returns the elements of keys in an older commit, and in this one, as `find` would.

        For proposals that expect an older head: what is the same for both is read once.
        """
        self.relies_on(keys)
        return self.builder.find_both(older, self.view, keys)

    def find_steady(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        """Finds as `find` does what is asked for often and changes rarely, such as namespaces."""
        self.relies_on(keys)
        return self.builder.find_steady(self.view, keys)

    @property
    def commits(self) -> CommitOverlay:
        """All commits: those of the chain and the published ones."""
        return self.builder.commits

    @property
    def nodes(self) -> NodeSource:
        """All nodes of indexes: those of the chain and the stored ones."""
        return self.builder.nodes

    def stands_on(self, other: CommitView) -> bool:
        """Returns whether a commit is a first-parent ancestor of this one, or the same."""
        return self.builder.stands_on(self.view, other)

    def page(
        self, universe: Universe, start: bytes, end: bytes | None, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """Returns the first elements of [start, end), in order."""
        if self.reliance is not None:
            self.reliance.add_range(start, end)
        return read_page(self.nodes, self.view.index(universe), start, end, limit)

    def line(self) -> Iterator[CommitView]:
        """Yields the commit and its first-parent ancestors, newest first, published or not."""
        return iterate_log(self.commits, self.view.obj_id)

    @property
    def unpublished(self) -> Mapping[ObjId, bytes]:
        """Values that elements of the chain lead to; they are not stored yet."""
        return self.builder.values


class Builder:
    """Builds commits that follow each other on one published head.

    What it made is visible to the next proposal of the chain only: until the chain is published,
    its nodes and commits exist only here.
    """

    def __init__(
        self,
        views: Views,
        nodes: NodeSource,
        rule: BoundaryRule,
        clock: Clock,
        base: CommitView,
        recent: Recent | None = None,
        sink: NodeSink | None = None,
        reach: LineReach | None = None,
    ) -> None:
        self._recent = recent
        self.reach = reach
        # Stores the nodes of changes that come in bulk at once: they may be more than fit memory.
        self._sink = sink
        self._touched: dict[bytes, int] = {}
        self.commits = CommitOverlay(views)
        self.nodes = Overlay(nodes)
        self._rule = rule
        self._clock = clock
        self.base = base
        self.values: dict[ObjId, bytes] = {}
        # What was found on the present head of the chain: each key of a plan is looked up once.
        self._found: dict[bytes, bytes | None] = {}
        self._found_on = base

    def build(self, head: CommitView, plan: CommitPlan) -> Built:
        """Builds a commit on a head; raises KeysConflict with all conflicts."""
        if plan.graft is not None:
            return self._grafted(head, plan, plan.graft)
        check_plan(plan)
        check_texts(plan)
        current = plan.current
        if current is None:
            keys = [operation.key for operation in plan.operations]
            keys += [relied.key for relied in plan.unchanged]
            current = self.find(head, keys)
            conflicts = find_conflicts(plan, current)
            if conflicts:
                raise keys_conflict(conflicts)
        changes = _changes_of(plan)
        nodes: list[NewNode] = []
        digest = OperationsDigest()
        parts = split_universes(changes)
        if plan.bulk is None:
            files, stored_files = self._advance(head, Universe.FILES, parts[Universe.FILES], nodes)
        else:
            check(not parts[Universe.FILES], "beside changes in bulk are operations on tables only")
            files, stored_files = self._merge_files(head, plan.bulk, digest, nodes)
        tables, stored_tables = self._advance(head, Universe.TABLES, parts[Universe.TABLES], nodes)
        # Keys of files sort before keys of tables.
        digest.add(changes)
        digested = Digested(digest.value(), None if plan.bulk is not None else _own_keys(changes))
        body = self._body(head, plan, digested, (stored_tables, stored_files))
        if body.own is None:
            body = self._with_unchanged(body, plan, current, nodes)
        view = CommitView(commit_id(body), body, tables, files)
        self.commits.add(view)
        if plan.bulk is not None or len(changes) > RECENT_KEYS_MAX:
            self._forget_keys(view)
        else:
            for key, _ in changes:
                self._touched[key] = body.sequence
            if self._found_on is head:
                self._found_on = view
                self._found.update(changes)
        self.values.update(plan.objects)
        return Built(view, encode_commit(body), tuple(nodes), tuple(plan.objects), changes)

    def _forget_keys(self, view: CommitView) -> None:
        """Drops what is remembered of keys, after a commit that may have touched very many."""
        self._recent, self._touched = None, {}
        self._found, self._found_on = {}, view

    def _grafted(self, head: CommitView, plan: CommitPlan, graft: Graft) -> Built:
        """Builds a commit that was built on an earlier head; its values are stored already."""
        nodes: list[NewNode] = []
        files, stored_files = self._graft_index(head, Universe.FILES, graft, nodes)
        tables, stored_tables = self._graft_index(head, Universe.TABLES, graft, nodes)
        body = self._body(head, plan, graft.digested, (stored_tables, stored_files))
        body = msgspec.structs.replace(body, unchanged_root=graft.unchanged_root)
        view = CommitView(commit_id(body), body, tables, files)
        self.commits.add(view)
        self._forget_keys(view)
        return Built(view, encode_commit(body), tuple(nodes), ())

    def _graft_index(
        self, head: CommitView, universe: Universe, graft: Graft, nodes: list[NewNode]
    ) -> tuple[Index, UniverseIndex]:
        """Returns the index of a universe after a commit that was built on an earlier head.

        A tree depends on its content alone. So what the head changed since is put into the tree
        that was built, unless the commit itself is the smaller change.
        """
        changes = graft.changes[universe]
        moved = [one for one in graft.moved if one.key[0] == universe]
        is_bulk = graft.is_bulk and universe is Universe.FILES
        if not is_bulk and (len(moved) > len(changes) or not surely_spills(changes)):
            return self._advance(head, universe, changes, nodes)
        root = graft.roots[universe]
        rights = [(one.key, one.right) for one in moved]
        edited = edit_tree(self.nodes, self._rule, SHAPES[universe].width, root, rights)
        nodes += edited.nodes
        self.nodes.add(edited.nodes)
        return Index(None, edited.root), UniverseIndex(int(universe), b"", edited.root)

    def _with_unchanged(
        self,
        body: CommitObject,
        plan: CommitPlan,
        current: Mapping[bytes, bytes | None],
        nodes: list[NewNode],
    ) -> CommitObject:
        """Adds the tree of own keys that were put unchanged; the others are found by comparing."""
        same = sorted([(op.key, _MARK) for op in plan.operations if current[op.key] == op.element])
        made: list[NewNode] = []
        root = build_tree(self._rule, len(_MARK), same, made.append)
        nodes += made
        self.nodes.add(made)
        return msgspec.structs.replace(body, unchanged_root=root)

    def find(self, head: CommitView, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        """Returns what keys of both universes hold; looks up only those that are not known yet.

        The answer is for the planning of one proposal: building it may change the mapping.
        """
        if self._found_on is not head:
            self._found, self._found_on = {}, head
        known = self._found
        if not known:
            self._found = known = self._look_up(head, keys)
            return known
        missing = [key for key in keys if key not in known]
        if missing:
            known.update(self._look_up(head, missing))
        return {key: known[key] for key in keys}

    def _look_up(self, head: CommitView, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Looks keys of both universes up, in bulk."""
        if len(keys) == 1:
            (key,) = keys
            index = head.files if key < _TABLES_BEGIN else head.tables
            return {key: find_one(self.nodes, index, key)}
        keys = ordered(keys)
        split = bisect_left(keys, _TABLES_BEGIN)
        found = []
        if split:
            found += find_many(self.nodes, head.files, keys[:split])
        if split < len(keys):
            found += find_many(self.nodes, head.tables, keys[split:])
        return dict(zip(keys, found, strict=True))

    def find_both(
        self, older: CommitView, head: CommitView, keys: Sequence[bytes]
    ) -> tuple[Mapping[bytes, bytes | None], Mapping[bytes, bytes | None]]:
        """Returns what keys hold in an older commit and in a head; what is equal is read once."""
        recent = self._recent
        if older is head:
            found = self.find(older, keys)
            return found, found
        # Only commits of this branch are in `recent`, so the head follows the older commit.
        sequence = older.sequence
        if recent is not None and recent.knows(older.obj_id) and sequence <= head.sequence:
            found = self.find(head, keys)
            touched = self._touched
            changed = [
                key for key in keys if (touched.get(key) or recent.last_touched(key)) > sequence
            ]
            if not changed:
                return found, found
            return {**found, **self._look_up(older, changed)}, found
        keys = ordered(keys)
        split = bisect_left(keys, _TABLES_BEGIN)
        files = find_in_both(self.nodes, older.files, head.files, keys[:split])
        tables = find_in_both(self.nodes, older.tables, head.tables, keys[split:])
        return (
            dict(zip(keys, files[0] + tables[0], strict=True)),
            dict(zip(keys, files[1] + tables[1], strict=True)),
        )

    def find_steady(self, head: CommitView, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        """Looks up only keys that are not remembered; keys that the chain touched never are."""
        recent = self._recent
        if recent is None:
            return self.find(head, keys)
        touched = self._touched
        found = recent.find_kept([key for key in keys if key not in touched])
        missing = [key for key in keys if key not in found]
        if missing:
            looked = self.find(head, missing)
            for key, element in looked.items():
                if key not in touched:
                    recent.keep(key, element)
            found.update(looked)
        return found

    def stands_on(self, head: CommitView, other: CommitView) -> bool:
        """Returns whether a commit is a first-parent ancestor of one of the chain, or the same."""
        if self._recent is not None and self._recent.knows(other.obj_id):
            return True
        return is_ancestor(self.commits, other, head)

    def _advance(
        self,
        head: CommitView,
        universe: Universe,
        changes: Sequence[Change],
        nodes: list[NewNode],
    ) -> tuple[Index, UniverseIndex]:
        index = head.tables if universe is Universe.TABLES else head.files
        if not changes:
            return index, _stored(head, universe)
        limit = spill_limit(head.obj_id)
        done = advance(self.nodes, self._rule, SHAPES[universe], index, changes, limit)
        if done.nodes:
            nodes += done.nodes
            self.nodes.add(done.nodes)
        return done.index, UniverseIndex(int(universe), done.embedded_raw, done.index.root)

    def _merge_files(
        self, head: CommitView, bulk: BulkChanges, digest: OperationsDigest, nodes: list[NewNode]
    ) -> tuple[Index, UniverseIndex]:
        """Puts very many files into the tree; nothing stays embedded.

        What was embedded goes into the tree first. Its nodes are few, and some are changed again.
        """
        sink = self._sink or nodes.append
        below = edit_tree(
            self.nodes, self._rule, None, head.files.root, embedded_changes(head.files.embedded)
        )
        self.nodes.add(below.nodes)
        for new in below.nodes:
            sink(new)
        merged = TreeMerge(self.nodes, self._rule, same_file, sink, digest.add_pairs)
        root = merged.run(below.root, checked_batches(bulk))
        self.nodes.add(nodes)
        return Index(None, root), UniverseIndex(int(Universe.FILES), b"", root)

    def _body(
        self,
        head: CommitView,
        plan: CommitPlan,
        digested: Digested,
        indexes: tuple[UniverseIndex, ...],
    ) -> CommitObject:
        parent = head.body
        sequence, generation, merges = 1, 0, 0
        if parent is not None:
            sequence = parent.sequence + 1
            generation, merges = parent.generation, parent.merges
        if plan.merged:
            parents = self.commits.load_many(plan.merged)
            generation = max(generation, *(merged.generation for merged in parents))
        tail = () if parent is None else (head.obj_id, *parent.tail[: COMMIT_TAIL_MAX - 1])
        return CommitObject(
            1,
            (head.obj_id, *plan.merged),
            plan.message,
            plan.headers,
            plan.hidden,
            digested.digest,
            max(self._clock.now_us(), 0 if parent is None else parent.created_us),
            sequence,
            generation + 1,
            merges + bool(plan.merged),
            b"" if parent is None else parent.root or head.obj_id,
            tail,
            self._jump(head, sequence, tail),
            digested.own,
            indexes,
        )

    def _jump(self, head: CommitView, sequence: int, tail: tuple[bytes, ...]) -> bytes:
        """Returns the jump of a commit; nearly always known from the tail."""
        target = jump_sequence(sequence)
        if target == 0:
            return EMPTY_ID
        distance = sequence - target
        if distance <= len(tail):
            return tail[distance - 1]
        return ancestor_at(self.commits, head, target)


def _changes_of(plan: CommitPlan) -> Sequence[Change]:
    """Returns all changes of a plan in ascending order."""
    changes: list[Change] = [(op.key, op.element) for op in plan.operations]
    changes.sort(key=_KEY)
    return changes


def split_universes(changes: Sequence[Change]) -> Mapping[Universe, Sequence[Change]]:
    """Returns the changes of each universe; keys of files sort before keys of tables."""
    split = bisect_left(changes, _TABLES_BEGIN, key=_KEY)
    return {Universe.FILES: changes[:split], Universe.TABLES: changes[split:]}


def _own_keys(changes: Sequence[Change]) -> tuple[bytes, ...] | None:
    """Returns the keys that a commit lists as its own, None if they are too many."""
    if len(changes) > COMMIT_OWN_KEYS_MAX:
        return None
    own = tuple([key for key, _ in changes])
    return own if sum(map(len, own)) <= COMMIT_OWN_BYTES_MAX else None


def _stored(head: CommitView, universe: Universe) -> UniverseIndex:
    """Carries an untouched universe over as it is."""
    if head.body is not None:
        for stored in head.body.indexes:
            if stored.universe == universe:
                return stored
    return UniverseIndex(int(universe), b"", None)
