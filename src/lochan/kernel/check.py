"""Checking a whole repository: reads everything that is referred to, reports, never repairs.

It has caches of its own, so everything is read from the store:

1. for every reference, deleted ones too: its row; the tags, commits, trees and contents that it
   points at and has pointed at, as far as its row remembers; its row against the index of names;
2. the moves in the log, which must follow each other without a gap, and what they point at;
3. every commit behind all of that (`check_history.py`), trees and contents once each
   (`check_trees.py`), with `history` those of every commit;
4. for every name that the index of names has ever lost: that its deletion is in row or log;
5. claims, settings and staging tokens, by themselves; staged files and their bytes in the store.

What it cannot judge is named in the report with its number: a claim that is missing, an object that
nothing refers to, a row that was replaced by an older state of itself. Findings beyond a limit are
only counted. Others may write meanwhile: what looks wrong between two rows is read again before it
is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from lochan.base.errors import Corrupt, NewerFormat
from lochan.base.ids import ID_BYTES, ObjId
from lochan.base.keys import Key, file_path
from lochan.base.limits.commits import TAG_DEPTH_MAX
from lochan.base.limits.maintenance import CHECK_UNFINISHED_S
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import INTERNAL_PREFIX, REFS_NAME, RefName
from lochan.codec.commits import TagObject, decode_tag, is_tag
from lochan.codec.objects import check_object_id
from lochan.codec.rows import (
    REFERENCE_FORM,
    ReferenceElement,
    ReferenceRow,
    decode_reference_element,
)
from lochan.index.layers import find_many, read_page
from lochan.kernel.changes import own_changes
from lochan.kernel.check_findings import (
    Finding,
    Findings,
    Problem,
    Progress,
    Report,
    ReportProgress,
    RowKind,
    Severity,
    Unjudged,
)
from lochan.kernel.check_history import HistoryCheck
from lochan.kernel.check_rows import (
    check_claims,
    check_objects,
    check_settings,
    count_others,
)
from lochan.kernel.check_staged import StagedCheck
from lochan.kernel.check_trees import Decode, TreeCheck
from lochan.kernel.context import RepositoryContext, Tuning
from lochan.kernel.history import is_ancestor, iterate_log
from lochan.kernel.moves import place_of, read_move
from lochan.kernel.verify import malformed, mislisted
from lochan.kernel.views import CommitView
from lochan.kv.store import Entry, Kind, partition
from lochan.persist.cache import Caches
from lochan.persist.rows import scan_all

__all__ = ["Finding", "Progress", "Report", "ReportProgress", "Severity", "check_repository"]

_CACHE_BYTES: Final = 40 * 1_024 * 1_024


def check_repository(
    context: RepositoryContext,
    report: ReportProgress | None = None,
    *,
    decode: Decode | None = None,
    history: bool = False,
    unreferenced: bool = False,
) -> Report:
    """Checks everything; calls `report` with the progress now and then.

    `decode` reads contents; without it they are not read. `history` reads the trees and contents of
    every commit; `unreferenced` looks for objects that nothing refers to, which needs `history`.
    """
    findings = Findings(report)
    check = RepositoryCheck(findings, context, decode, history=history, unreferenced=unreferenced)
    return findings.report(check.run())


class RepositoryCheck:
    """One check of one repository, perhaps among others of its store."""

    def __init__(
        self,
        findings: Findings,
        context: RepositoryContext,
        decode: Decode | None,
        *,
        history: bool,
        unreferenced: bool,
    ) -> None:
        # Parts of its own, with small caches that hold nothing yet.
        self._context = RepositoryContext(
            context.store,
            context.instance,
            context.description,
            context.clock,
            context.random,
            context.waiting,
            tuning=Tuning(Caches(_CACHE_BYTES)),
        )
        self._findings = findings
        self._unreferenced = unreferenced and history
        self._tag_ids: set[ObjId] = set()
        self._trees = TreeCheck(self._context, findings, decode)
        self._commits = HistoryCheck(
            self._context, findings, self._trees, history=history, remember=self._unreferenced
        )
        self._staged = StagedCheck(self._context, findings, self._trees)
        self._index_is_readable = True

    def run(self) -> tuple[Unjudged, ...]:
        """Goes through the rows in the order of the head of this module.

        Returns what could not be judged.
        """
        findings, context = self._findings, self._context
        head = self._names_head()
        if head is not None and head.body is not None:
            self._commits.names_root = ObjId(head.body.root or head.obj_id)
        for name, entry, listed in self._names_and_rows():
            row = self._check_row(name.decode("utf-8", "replace"), entry)
            if entry is None or row is not None:
                self._check_listed(name, row, listed)
            findings.count("references")
            findings.report_progress()
        self._check_log()
        self._staged.check_tokens()
        self._commits.walk()
        if head is not None and self._index_is_readable:
            self._findings.attempt(RowKind.NAMES, REFS_NAME, self._check_ended, head)
        self._trees.finish()
        check_settings(context, findings)
        unjudged = [check_claims(context, findings)]
        if self._unreferenced:
            unjudged.append(check_objects(context, findings, self._has_read))
        else:
            unjudged.append(
                Unjudged("unreferenced objects", None, "counted when all history is checked")
            )
        unjudged += count_others(context)
        findings.report_progress()
        return tuple(unjudged)

    def _has_read(self, obj_id: ObjId) -> bool:
        return (
            self._trees.has_read(obj_id)
            or obj_id in self._commits.commits
            or obj_id in self._tag_ids
        )

    def _check_row(self, name: str, entry: Entry | None) -> ReferenceRow | None:
        """Checks a row and all it points at; None if there is none that can be read."""
        if entry is None:
            return None
        where = repr(name)
        row = self._findings.attempt(RowKind.REFERENCE, where, REFERENCE_FORM.decode, entry.value)
        if row is None:
            return None
        wrong = list(malformed(row, entry.key))
        for what in wrong:
            self._wrong(where, what)
        self._findings.attempt(RowKind.TOKEN, f"of {where}", self._staged.check_branch, row)
        head = self._check_pointer(f"reference {where}", ObjId(row.pointer))
        if head is not None and row.kind == "BRANCH" and row.moves and not wrong:
            self._findings.attempt(RowKind.REFERENCE, where, self._check_descends, where, row, head)
        self._findings.attempt(RowKind.MOVE, f"of {where}", self._check_copies, where, row)
        held = chain.from_iterable((move.old, move.new) for move in row.moves)
        past = dict.fromkeys([*(raw for raw, _ in row.previous), *held])
        for raw in past:
            if raw and raw != row.pointer:
                self._check_pointer(f"reference {where}, where it has been", ObjId(raw))
        return row

    def _check_copies(self, where: str, row: ReferenceRow) -> None:
        """Holds the moves in a row against each other and against their copies."""
        known = {move.version: move for move in row.moves}
        for earlier, later in pairwise(row.moves):
            if later.before != earlier.version:
                self._wrong(where, f"its move {later.version} does not follow the one before it")
        first = row.moves[0] if row.moves else None
        if first is not None and first.before:
            # It left the row, so it was copied before.
            self._check_is_copied(row.name, row.incarnation, first.before, f"reference {where}")
        start = min(known, default=1)
        for copied in self._context.moves.fetch_after(row.name, row.incarnation, start - 1):
            if known.get(copied.version, copied) != copied:
                self._wrong(where, f"its move {copied.version} and the copy of it differ")

    def _check_is_copied(self, name: str, incarnation: int, version: int, by: str) -> None:
        if self._context.moves.find(name, incarnation, version) is None:
            self._findings.add(
                RowKind.MOVE,
                f"{name!r} incarnation {incarnation} version {version}",
                Problem.MISSING,
                "a move that left its row is not in the log",
                by,
            )

    def _check_descends(self, where: str, row: ReferenceRow, head: CommitView) -> None:
        last = self._context.views.load(ObjId(row.moves[-1].new))
        if not is_ancestor(self._context.views, last, head):
            self._wrong(where, "its head does not descend from where its last move led")

    def _check_pointer(self, where: str, pointer: ObjId) -> CommitView | None:
        """Peels a pointer; what lies behind is walked later, with that of others."""
        if len(pointer) != ID_BYTES:
            return None
        at, by = pointer, where
        for _ in range(TAG_DEPTH_MAX + 1):
            known = self._context.views.find_cached(at)
            raw = None if known is not None else self._context.objects.find(at)
            if known is None and raw is None:
                what = "it is missing: what refers to it leads nowhere"
                self._findings.add(RowKind.COMMIT, at.hex(), Problem.MISSING, what, by)
                return None
            if raw is None or not is_tag(raw):
                head = self._commits.load(at, by)
                if head is not None:
                    self._commits.add_head(head, by)
                return head
            tag = self._findings.attempt(
                RowKind.TAG, at.hex(), self._read_tag, at, raw, referred_by=by
            )
            if tag is None:
                return None
            at, by = ObjId(tag.target), f"tag {at.hex()}"
        self._findings.add(
            RowKind.TAG, at.hex(), Problem.INCONSISTENT, "too many tags point at each other", by
        )
        return None

    def _read_tag(self, obj_id: ObjId, raw: bytes) -> TagObject:
        check_object_id(obj_id, raw)
        tag = decode_tag(raw)
        if obj_id not in self._tag_ids:
            self._tag_ids.add(obj_id)
            self._findings.count("tags")
        return tag

    def _check_log(self) -> None:
        """Checks the copied moves: each by itself, that none is missing, and where they point."""
        incarnation_of, last = ("", 0), 0
        for entry in self._entries(Kind.LOG):
            name, incarnation, version = place_of(entry.key)
            where = f"{name!r} incarnation {incarnation} version {version}"
            if (name, incarnation) != incarnation_of:
                incarnation_of, last = (name, incarnation), 0
            row = self._findings.attempt(RowKind.MOVE, where, read_move, entry)
            self._findings.count("moves")
            if row is None:
                # Its predecessor is unknown; the next move names this one as its predecessor.
                last = version
                continue
            move = row.move
            if move.before != last and move.before:
                self._check_is_copied(name, incarnation, move.before, f"move {where}")
            elif move.before != last or (last == 0 and move.kind != "create"):
                self._findings.add(
                    RowKind.MOVE, where, Problem.INCONSISTENT, "it does not follow the one before"
                )
            last = version
            for raw in (move.old, move.new):
                if raw:
                    self._check_pointer(f"move {where}", ObjId(raw))
        self._findings.report_progress()

    def _check_ended(self, head: CommitView) -> None:
        """Checks that row or log know the deletion of every name that the index lost."""
        context = self._context
        for view in iterate_log(context.views, head.obj_id):
            for change in own_changes(context.views, context.nodes, view):
                if change.left is not None and change.right is None:
                    ended = decode_reference_element(change.left)
                    self._check_deletion(RefName(file_path(Key(change.key))), ended.incarnation)

    def _check_deletion(self, name: RefName, incarnation: int) -> None:
        # The row before the log: a move is copied to the log before it leaves the row.
        entry = self._context.store.get(
            partition(self._context.instance, Kind.REFERENCES), name.encode()
        )
        where = f"{name!r} incarnation {incarnation}"
        try:
            row = None if entry is None else REFERENCE_FORM.decode(entry.value)
            if row is not None and row.incarnation == incarnation and row.deleted:
                return
            moves = self._context.moves.fetch_after(name, incarnation, 0)
        except (Corrupt, NewerFormat):
            # Reported where the row itself is read.
            return
        if not moves or moves[-1].kind != "delete":
            what = "the index of names records its deletion, and neither its row nor the log does"
            self._findings.add(RowKind.MOVE, where, Problem.MISSING, what, "index of names")

    def _check_listed(self, name: bytes, row: ReferenceRow | None, listed: bytes | None) -> None:
        where = repr(name.decode("utf-8", "replace"))
        if name.decode("utf-8", "replace").startswith(INTERNAL_PREFIX):
            if listed is not None:
                self._wrong(where, "an internal reference is listed")
            return
        _, what = mislisted(row, self._element(where, listed))
        if what and self._index_is_readable:
            self._findings.attempt(RowKind.REFERENCE, where, self._look_again, name, what)

    def _look_again(self, name: bytes, what: str) -> None:
        """Reads row and index again; a writer may have been between the two first reads."""
        where = repr(name.decode("utf-8", "replace"))
        found = self._context.references.fetch(RefName(name.decode()))
        (listed,) = find_many(self._context.nodes, self._index().files, [b"f" + name])
        row = None if found is None else found.row
        element = self._element(where, listed)
        damage, still = mislisted(row, element)
        if still != what:
            return
        old_us = self._context.clock.now_us() - CHECK_UNFINISHED_S * 1_000_000
        if row is None and element is not None and element.created_us < old_us:
            self._findings.add(
                RowKind.REFERENCE,
                where,
                Problem.MISSING,
                "it is listed and has no row: its row was lost, or its creation stopped half way "
                "and the name was not used since; the next use creates it again where it was "
                "created, without later commits",
                "index of names",
            )
        else:
            problem = Problem.INCONSISTENT if damage else Problem.UNFINISHED
            self._findings.add(RowKind.REFERENCE, where, problem, what, "index of names")

    def _element(self, where: str, listed: bytes | None) -> ReferenceElement | None:
        if listed is None:
            return None
        return self._findings.attempt(RowKind.ELEMENT, where, decode_reference_element, listed)

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
        start = b"f"
        index = self._names_head()
        while index is not None:
            files, limit = index.files, PAGE_ENTRIES_MAX
            nodes = self._context.nodes
            page = self._findings.attempt(
                RowKind.NAMES, REFS_NAME, read_page, nodes, files, start, b"g", limit
            )
            if page is None:
                break
            yield from ((key[1:], element) for key, element in page)
            if len(page) < limit:
                return
            start = page[-1][0] + b"\0"
        # Rows and index cannot be compared any more.
        self._index_is_readable = False

    def _names_head(self) -> CommitView | None:
        return self._findings.attempt(RowKind.NAMES, REFS_NAME, self._index, below=RowKind.COMMIT)

    def _index(self) -> CommitView:
        found = self._context.references.fetch(REFS_NAME)
        if found is None:
            raise Corrupt("the index of names has lost its row")
        return self._context.views.load(ObjId(found.row.pointer))

    def _entries(self, kind: Kind) -> Iterator[Entry]:
        return scan_all(self._context.store, partition(self._context.instance, kind))

    def _wrong(self, where: str, what: str) -> None:
        self._findings.add(RowKind.REFERENCE, where, Problem.INCONSISTENT, what)
