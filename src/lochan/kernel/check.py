"""Checking a whole repository: walks everything that is referred to, reports, never repairs.

It reads with fresh eyes, past the caches of whoever asks. For every reference, deleted ones too:
its row; what it points at and has pointed at, as far as its row says; every commit behind that,
over all parents, against its checksum, its id, its parents and its own operations; at the heads
also the trees, which must be the ones that their content builds. Then rows against the index of
names, and the copied moves.

History is walked from all heads together, by falling generation: each commit is met once, and what
has to be remembered is only where the walk stands on each line. Findings beyond a limit are only
counted. Others may write meanwhile: what looks wrong between a row and the index is read again
before it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from heapq import heappop, heappush
from itertools import chain
from typing import Final, ParamSpec, TypeVar

import msgspec

from lochan.base.errors import Corrupt
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe
from lochan.base.limits import CHECK_FINDINGS_MAX, CHECK_HEADS_MAX, PAGE_ENTRIES_MAX
from lochan.base.names import INTERNAL_PREFIX, REFS_NAME, RefName
from lochan.codec.rows import ReferenceElement, ReferenceRow, decode_reference_element, decode_row
from lochan.index.layers import SHAPES, find_many, read_page
from lochan.index.source import CachedNodes
from lochan.index.verify import check_tree
from lochan.kernel.history import is_ancestor
from lochan.kernel.moves import read_move
from lochan.kernel.parts import Parts, Tuning
from lochan.kernel.references import Names
from lochan.kernel.tags import Tags
from lochan.kernel.verify import malformed, misindexed, mislisted, misplaced
from lochan.kernel.views import CommitView, Views
from lochan.kv.store import Entry, Kind, partition

_PROGRESS_COMMITS: Final = 1_000
# With more lines than this the next commits of one would be forgotten before their turn.
_PREFETCH_LINES_MAX: Final = 32
_CACHE_BYTES: Final = 16 * 1_024 * 1_024


class Severity(Enum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Stored bytes are wrong or missing."""

    UNFINISHED = "unfinished"
    """Somebody stopped half way; whoever uses the name next goes on."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    severity: Severity
    where: str
    what: str


class Progress(msgspec.Struct, frozen=True):
    """How far a check is."""

    references: int
    commits: int
    elements: int


class Report(msgspec.Struct, frozen=True):
    """What a check read and found; `untold` counts findings beyond the limit."""

    findings: tuple[Finding, ...]
    untold: int
    progress: Progress

    @property
    def damaged(self) -> bool:
        """Tells whether anything is wrong that will not heal by itself."""
        return self.untold > 0 or any(one.severity is Severity.DAMAGE for one in self.findings)


Tell = Callable[[Progress], None]

_Given = ParamSpec("_Given")
_Got = TypeVar("_Got")


def check_repository(parts: Parts, tell: Tell | None = None) -> Report:
    """Checks everything; calls `tell` now and then."""
    return _Check(parts, tell).run()


class _Check:
    """One check; all it remembers is bounded."""

    def __init__(self, parts: Parts, tell: Tell | None) -> None:
        # Parts of its own, with small caches that hold nothing yet.
        self._parts = Parts(
            parts.store,
            parts.instance,
            parts.description,
            parts.clock,
            parts.chance,
            parts.waiting,
            tuning=Tuning(_CACHE_BYTES, _CACHE_BYTES),
        )
        self._views: Views = self._parts.views
        self._nodes: CachedNodes = self._parts.nodes
        self._tags = Tags(self._parts, Names(self._parts))
        self._tell = tell
        self._findings: list[Finding] = []
        self._untold = 0
        self._index_is_readable = True
        self._heads: set[ObjId] = set()
        self._roots: set[ObjId] = set()
        self._references = self._commits = self._elements = 0

    def run(self) -> Report:
        """Goes through rows and names side by side, then through the copied moves."""
        for name, entry, listed in self._names_and_rows():
            where = f"reference {name.decode('utf-8', 'replace')!r}"
            row = self._check_row(where, entry)
            if entry is None or row is not None:
                self._check_listed(where, name, row, listed)
            self._references += 1
            self._report_progress()
        self._walk()
        for entry in self._entries(Kind.LOG):
            self._try(f"log {entry.key!r}", read_move, entry.value)
        return Report(tuple(self._findings), self._untold, self._progress())

    def _check_row(self, where: str, entry: Entry | None) -> ReferenceRow | None:
        """Checks a row and all it points at; None if there is none that can be read."""
        if entry is None:
            return None
        row = self._try(where, decode_row, entry.value)
        if row is None:
            return None
        wrong = list(malformed(row, entry.key))
        for what in wrong:
            self._find(where, what)
        head = self._check_pointer(where, ObjId(row.pointer))
        if head is not None and not row.deleted:
            self._check_trees(where, head)
        if head is not None and row.kind == "BRANCH" and row.moves and not wrong:
            self._try(where, self._check_stands_on, where, row, head)
        self._try(where, self._check_copies, where, row)
        held = chain.from_iterable((move.old, move.new) for move in row.moves)
        past = dict.fromkeys([*(raw for raw, _ in row.previous), *held])
        for raw in past:
            if raw and raw != row.pointer:
                self._check_pointer(f"{where}, where it has been", ObjId(raw))
        return row

    def _check_copies(self, where: str, row: ReferenceRow) -> None:
        """Holds the moves in a row against their copies."""
        known = {move.version: move for move in row.moves}
        first = min(known, default=1)
        for copied in self._parts.moves.fetch_after(row.name, row.incarnation, first - 1):
            if known.get(copied.version, copied) != copied:
                self._find(where, f"its move {copied.version} and the copy of it differ")

    def _check_stands_on(self, where: str, row: ReferenceRow, head: CommitView) -> None:
        last = self._views.load(ObjId(row.moves[-1].new))
        if not is_ancestor(self._views, last, head):
            self._find(where, "it does not stand on where its last move led")

    def _check_pointer(self, where: str, pointer: ObjId) -> CommitView | None:
        """Peels a pointer; what lies behind is walked later, with that of others."""
        if len(pointer) != len(EMPTY_ID):
            return None
        peeled = self._try(where, self._tags.peel, pointer)
        if peeled is None:
            return None
        self._heads.add(peeled.commit.obj_id)
        if len(self._heads) >= CHECK_HEADS_MAX:
            self._walk()
        return peeled.commit

    def _walk(self) -> None:
        """Checks every commit behind the heads."""
        queue: list[tuple[int, ObjId]] = []
        unread: set[ObjId] = set()
        for head in sorted(self._heads):
            self._push(queue, [head], unread)
        self._heads.clear()
        last = EMPTY_ID
        while queue:
            _, obj_id = heappop(queue)
            # One that was reached from several sides comes out several times, one after the other.
            if obj_id in (last, EMPTY_ID):
                continue
            last = obj_id
            place = f"commit {obj_id.hex()}"
            view = self._try(place, self._views.load, obj_id)
            body = None if view is None else view.body
            if view is None or body is None:
                continue
            self._count_commit()
            tail = [ObjId(raw) for raw in body.tail] or [view.parent]
            if len(queue) < _PREFETCH_LINES_MAX:
                self._prefetch(tail)
            self._push(queue, tail, unread)
            for raw in body.parents[1:]:
                self._push(queue, [ObjId(raw)], unread)
            if unread.isdisjoint(body.parents):
                self._try(place, self._check_commit, place, view)

    def _push(self, queue: list[tuple[int, ObjId]], line: list[ObjId], unread: set[ObjId]) -> None:
        """Queues the first of a line that can be read; the others are told, each once."""
        for obj_id in line:
            if obj_id not in unread:
                view = self._try(f"commit {obj_id.hex()}", self._views.load, obj_id)
                if view is not None:
                    return heappush(queue, (-view.generation, obj_id))
                if len(unread) < CHECK_FINDINGS_MAX:
                    unread.add(obj_id)
        return None

    def _prefetch(self, tail: list[ObjId]) -> None:
        """Fetches the next commits of a line together."""
        if self._views.find_cached(tail[0]) is None:
            with suppress(Corrupt):
                # Each is fetched again by itself, and what is wrong is told then.
                self._views.load_many(tail)

    def _count_commit(self) -> None:
        self._commits += 1
        if self._commits % _PROGRESS_COMMITS == 0:
            self._report_progress()

    def _check_commit(self, place: str, view: CommitView) -> None:
        for what in misplaced(self._views, view):
            self._find(place, what)
        for what in misindexed(self._nodes, self._views.load(view.parent), view):
            self._find(place, what)

    def _check_trees(self, where: str, head: CommitView) -> None:
        for universe in Universe:
            root = head.index(universe).root
            if root is None or root in self._roots:
                continue
            if len(self._roots) >= CHECK_HEADS_MAX:
                self._roots.clear()
            self._roots.add(root)
            tree = f"{where}, tree of {universe.name.lower()}"
            width = SHAPES[universe].width
            count = self._try(tree, check_tree, self._nodes, self._parts.rule, width, root)
            self._elements += count or 0

    def _check_listed(
        self, where: str, name: bytes, row: ReferenceRow | None, listed: bytes | None
    ) -> None:
        if name.decode("utf-8", "replace").startswith(INTERNAL_PREFIX):
            if listed is not None:
                self._find(where, "an internal reference is listed")
            return
        _, what = mislisted(row, self._element(where, listed))
        if what and self._index_is_readable:
            self._try(where, self._look_again, where, name, what)

    def _look_again(self, where: str, name: bytes, what: str) -> None:
        """Tells only what stays: somebody may have been at it between the two reads."""
        found = self._parts.references.fetch(RefName(name.decode()))
        (listed,) = find_many(self._nodes, self._index().files, [b"f" + name])
        row = None if found is None else found.row
        damage, still = mislisted(row, self._element(where, listed))
        if still == what:
            self._find(where, what, Severity.DAMAGE if damage else Severity.UNFINISHED)

    def _element(self, where: str, listed: bytes | None) -> ReferenceElement | None:
        if listed is None:
            return None
        return self._try(where, decode_reference_element, listed)

    def _names_and_rows(self) -> Iterator[tuple[bytes, Entry | None, bytes | None]]:
        """Joins rows and index, both in the order of names."""
        rows, listed = self._entries(Kind.REFERENCES), self._listed()
        row, item = next(rows, None), next(listed, None)
        while row is not None or item is not None:
            names = [] if row is None else [row.key]
            name = min([*names, *([] if item is None else [item[0]])])
            mine = row if row is not None and row.key == name else None
            element = item[1] if item is not None and item[0] == name else None
            yield name, mine, element
            row = row if mine is None else next(rows, None)
            item = item if element is None else next(listed, None)

    def _listed(self) -> Iterator[tuple[bytes, bytes]]:
        """Yields the names of the index with their elements; stops where it cannot be read."""
        where, start = "the index of names", b"f"
        index = self._try(where, self._index)
        while index is not None:
            files, limit = index.files, PAGE_ENTRIES_MAX
            page = self._try(where, read_page, self._nodes, files, start, b"g", limit)
            if page is None:
                break
            yield from ((key[1:], element) for key, element in page)
            if len(page) < limit:
                return
            start = page[-1][0] + b"\0"
        # Nothing can be said of names any more.
        self._index_is_readable = False

    def _index(self) -> CommitView:
        found = self._parts.references.fetch(REFS_NAME)
        if found is None:
            raise Corrupt("the index of names has lost its row")
        return self._views.load(ObjId(found.row.pointer))

    def _entries(self, kind: Kind) -> Iterator[Entry]:
        place = partition(self._parts.instance, kind)
        start: bytes | None = b""
        while start is not None:
            page = self._parts.store.scan(place, start, None, PAGE_ENTRIES_MAX)
            yield from page.entries
            start = page.next_start

    def _try(
        self, where: str, act: Callable[_Given, _Got], *given: _Given.args, **more: _Given.kwargs
    ) -> _Got | None:
        """Does something that reads; what cannot be read is a finding."""
        try:
            return act(*given, **more)
        except Corrupt as error:
            self._find(where, error.message)
            return None

    def _find(self, where: str, what: str, severity: Severity = Severity.DAMAGE) -> None:
        finding = Finding(severity, where, what)
        if len(self._findings) < CHECK_FINDINGS_MAX:
            self._findings.append(finding)
        else:
            self._untold += 1

    def _progress(self) -> Progress:
        return Progress(self._references, self._commits, self._elements)

    def _report_progress(self) -> None:
        if self._tell is not None:
            self._tell(self._progress())
