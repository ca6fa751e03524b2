"""Checking commits: every one that is behind a pointer, over all parents, each met once.

History is walked from all heads together, by falling generation, so what has to be remembered is
only where the walk stands on each line (and, if unreferenced objects are to be found, the ids). A
commit is held against its checksum, its id, its parents and its own operations. Of a commit that a
reference or the ref-log points at, the trees and contents are read too; with `history` those of
every commit. There only what a commit itself put has to be looked at, because the rest is its
parent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe
from lochan.base.limits.maintenance import CHECK_FINDINGS_MAX, CHECK_HEADS_MAX
from lochan.index.node import items_of
from lochan.kernel.changes import own_changes
from lochan.kernel.check_findings import Findings, Problem, RowKind
from lochan.kernel.check_trees import FILES, MARKS, NAMES, TABLES, Layout, TreeCheck, check_embedded
from lochan.kernel.context import RepositoryContext
from lochan.kernel.verify import misindexed, misplaced
from lochan.kernel.views import CommitView

_PROGRESS_COMMITS: Final = 1_000
# With more lines than this the next commits of one would be forgotten before their turn.
_PREFETCH_LINES_MAX: Final = 32

_Queue = list[tuple[int, ObjId]]


class HistoryCheck:
    """Checks the commits of one repository."""

    def __init__(
        self,
        context: RepositoryContext,
        findings: Findings,
        trees: TreeCheck,
        *,
        history: bool,
        remember: bool,
    ) -> None:
        self._views = context.views
        self._nodes = context.nodes
        self._findings = findings
        self._trees = trees
        self._history = history
        self._remember = remember
        self._heads: dict[ObjId, str] = {}
        self._looked_at: set[ObjId] = set()
        self.commits: set[ObjId] = set()
        self.names_root = EMPTY_ID
        """The first commit of the index of names; its commits are recognised by it."""

    def add_head(self, head: CommitView, referred_by: str) -> None:
        """Takes a commit that something points at; what lies behind is walked with that of others.

        Its trees and contents are read at once.
        """
        self._heads.setdefault(head.obj_id, referred_by)
        self._look_at(head)
        if len(self._heads) >= CHECK_HEADS_MAX:
            self.walk()

    def load(self, obj_id: ObjId, referred_by: str) -> CommitView | None:
        """Returns a commit; one that cannot be read is a finding."""
        load = self._views.load
        row = obj_id.hex()
        return self._findings.attempt(RowKind.COMMIT, row, load, obj_id, referred_by=referred_by)

    def walk(self) -> None:
        """Checks every commit behind the heads."""
        queue: _Queue = []
        unread: set[ObjId] = set()
        for head, referred_by in sorted(self._heads.items()):
            self._push(queue, [head], unread, referred_by)
        self._heads.clear()
        last = EMPTY_ID
        while queue:
            _, obj_id = heappop(queue)
            # One that was reached from several sides comes out several times, one after the other.
            if obj_id in (last, EMPTY_ID):
                continue
            last = obj_id
            view = self.load(obj_id, "")
            body = None if view is None else view.body
            if view is None or body is None:
                continue
            self._count(obj_id)
            name = f"commit {obj_id.hex()}"
            tail = [ObjId(raw) for raw in body.tail] or [view.parent]
            if len(queue) < _PREFETCH_LINES_MAX:
                self._prefetch(tail)
            self._push(queue, tail, unread, name)
            for raw in body.parents[1:]:
                self._push(queue, [ObjId(raw)], unread, name)
            self._check_commit(view, parents_are_read=unread.isdisjoint(body.parents))

    def _push(
        self, queue: _Queue, line: Sequence[ObjId], unread: set[ObjId], referred_by: str
    ) -> None:
        """Queues the first of a line that can be read; the others are reported, each once."""
        for obj_id in line:
            if obj_id in unread:
                continue
            view = self.load(obj_id, referred_by)
            if view is not None:
                return heappush(queue, (-view.generation, obj_id))
            if len(unread) < CHECK_FINDINGS_MAX:
                unread.add(obj_id)
        return None

    def _prefetch(self, tail: list[ObjId]) -> None:
        """Fetches the next commits of a line together."""
        if self._views.find_cached(tail[0]) is None:
            with suppress(Corrupt, NewerFormat):
                # Each is fetched again by itself, and what is wrong is reported then.
                self._views.load_many(tail)

    def _count(self, obj_id: ObjId) -> None:
        findings = self._findings
        findings.count("commits")
        if self._remember:
            self.commits.add(obj_id)
        if findings.counts["commits"] % _PROGRESS_COMMITS == 0:
            findings.report_progress()

    def _check_commit(self, view: CommitView, *, parents_are_read: bool) -> None:
        row = view.obj_id.hex()
        if parents_are_read:
            complaints = self._findings.attempt(RowKind.COMMIT, row, self._complaints, view)
            for what in complaints or ():
                self._findings.add(RowKind.COMMIT, row, Problem.INCONSISTENT, what)
        if self._history:
            self._look_at(view, own_only=parents_are_read)

    def _complaints(self, view: CommitView) -> list[str]:
        return [
            *misplaced(self._views, view),
            *misindexed(self._nodes, self._views.load(view.parent), view),
        ]

    def _look_at(self, view: CommitView, *, own_only: bool = False) -> None:
        """Reads the trees and contents of a commit; with `own_only` those that its parent lacks."""
        body = view.body
        if body is None or view.obj_id in self._looked_at:
            return
        name = f"commit {view.obj_id.hex()}"
        if body.unchanged_root is not None:
            self._trees.check_tree(ObjId(body.unchanged_root), MARKS, name)
        for universe in Universe:
            layout = self._layout(view, universe)
            index = view.index(universe)
            if index.root is not None:
                self._trees.check_tree(index.root, layout, name)
            if index.embedded is not None and not own_only:
                row = view.obj_id.hex()
                self._findings.attempt(RowKind.COMMIT, row, check_embedded, index.embedded)
                self._findings.count("elements", len(index.embedded.suffixes))
                self._trees.check_elements(items_of(index.embedded), layout, name)
        if own_only:
            self._look_at_own(view, name)
        else:
            # A commit that something points at is met again by the walk.
            self._looked_at.add(view.obj_id)

    def _look_at_own(self, view: CommitView, name: str) -> None:
        changes = self._findings.attempt(
            RowKind.COMMIT, view.obj_id.hex(), own_changes, self._views, self._nodes, view
        )
        for universe in Universe:
            items = [
                (change.key, change.right)
                for change in changes or ()
                if change.right is not None and change.key[0] == universe
            ]
            self._trees.check_elements(items, self._layout(view, universe), name)

    def _layout(self, view: CommitView, universe: Universe) -> Layout:
        if universe is Universe.TABLES:
            return TABLES
        first = view.body.root if view.body is not None else b""
        return NAMES if (first or view.obj_id) == self.names_root else FILES
