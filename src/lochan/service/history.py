"""Use cases that read history: logs and differences, in pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, table_elements
from lochan.base.limits.commits import REBASE_COMMITS_MAX
from lochan.base.limits.requests import (
    LOG_BYTES_MAX,
    LOG_OPERATIONS_MAX,
    LOG_SCANNED_MAX,
    PAGE_ENTRIES_MAX,
    SCAN_ENTRIES_MAX,
)
from lochan.catalog.contents import load_contents, load_values
from lochan.catalog.meta import meta_of
from lochan.index.difference import Difference
from lochan.index.layers import diff, find_many
from lochan.kernel.changes import own_changes
from lochan.kernel.history import is_ancestor, iterate_log
from lochan.kernel.tokens import PageToken
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey, Delete, LogEntry, Put
from lochan.model.results import DiffEntry, Page
from lochan.model.specs import ReferenceSpec
from lochan.rules.filters import FilterKind, compile_filter
from lochan.service.pages import Selection, check_limit
from lochan.service.policy import Action, Call
from lochan.service.resolve import Reads

_LOG: Final = "log"
_DIFF: Final = "diff"


class History(Reads):
    """Reads the history of one repository."""

    def log(
        self,
        call: Call,
        spec: ReferenceSpec,
        limit: int | None = None,
        token: str | None = None,
        *,
        limit_hash: ReferenceSpec | None = None,
        filter: str = "",  # noqa: A002 - the name that users know
        fetch_all: bool = False,
    ) -> Page[LogEntry]:
        """Returns commits from newest to oldest, down to `limit_hash` where one is given.

        A page holds at most as many commits as are allowed for one, and ends with the one that
        fills it; a filter reads a bounded number. So a page may be short, or empty, and still
        have a token.
        """
        check_limit(limit)
        count = PAGE_ENTRIES_MAX if limit is None else min(limit, PAGE_ENTRIES_MAX)
        resolved = self._resolver.read(call, Action.READ_LOG, spec)
        listed = self._resolver.listed(spec, resolved)
        selected = f"{limit_hash.text() if limit_hash else ''} {filter}"
        start, last = resolved.view.obj_id, None
        if token is None and limit_hash is not None:
            limit_view = self._resolver.read_on(call, Action.READ_LOG, resolved, limit_hash).view
            last = limit_view.obj_id
        elif token is not None:
            # The position is where the log ends: a relative limit is one of the first page.
            start, end = self._tokens.read(PageToken(token), _LOG, selected, listed)
            self._resolver.read_at(call, Action.READ_LOG, resolved, start)
            last = ObjId(end) if end else None
        accepts = compile_filter(filter, FilterKind.LOG)
        with_operations = fetch_all or (accepts is not None and accepts.reads_operations)
        found: list[LogEntry] = []
        further: ObjId | None = None
        operations = size = 0
        for scanned, view in enumerate(iterate_log(self._context.views, start)):
            is_full = operations >= LOG_OPERATIONS_MAX or size >= LOG_BYTES_MAX
            if is_full or len(found) == count or scanned == LOG_SCANNED_MAX:
                further = view.obj_id
                break
            entry, entry_bytes = self._entry(view, with_operations=with_operations)
            operations += len(entry.operations or ())
            size += entry_bytes
            if accepts is None or accepts.accepts_log(entry):
                if with_operations and not fetch_all:
                    entry = LogEntry(entry.meta, entry.parent)
                found.append(entry)
            if view.obj_id == last:
                break
        next_page = None
        if further is not None:
            next_page = self._tokens.make(_LOG, further, last or b"", selected, listed)
        return Page(tuple(found), next_page, resolved.reference)

    def diff(
        self,
        call: Call,
        left: ReferenceSpec,
        right: ReferenceSpec,
        limit: int | None = None,
        token: str | None = None,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that users know
    ) -> Page[DiffEntry]:
        """Returns the keys whose contents differ between two commits; pages stay on both."""
        check_limit(limit)
        selection = Selection(keys=keys, start=start, end=end, prefix=prefix, filter=filter)
        resolver, action = self._resolver, Action.READ_ENTRIES
        one, other = (
            resolver.read(call, action, left, keys),
            resolver.read(call, action, right, keys),
        )
        listed = f"{resolver.listed(left, one)} {resolver.listed(right, other)}"
        at = selection.range().start
        if token is not None:
            # The position names the second commit before the key.
            commit, place = self._tokens.read(PageToken(token), _DIFF, selection.text(), listed)
            one = resolver.read_at(call, action, one, commit, keys)
            other = resolver.read_at(call, action, other, ObjId(place[:32]), keys)
            at = place[32:]
        accepts = compile_filter(filter, FilterKind.DIFF)
        found: list[DiffEntry] = []
        further: bytes | None = None
        scanned = 0
        changes = self._differences(one.view, other.view, selection, at)
        while further is None:
            count = PAGE_ENTRIES_MAX if limit is None else limit - len(found) + 1
            batch = list(islice(changes, min(count, PAGE_ENTRIES_MAX)))
            if not batch:
                break
            scanned += len(batch)
            for change, entry in zip(batch, self._diff_entries(batch), strict=True):
                if accepts is not None and not accepts.accepts_diff(entry):
                    continue
                if limit is not None and len(found) == limit:
                    further = change.key
                    break
                found.append(entry)
            if further is None and accepts is not None and scanned >= SCAN_ENTRIES_MAX:
                further = batch[-1].key + b"\0"
        next_page = None
        if further is not None:
            place = other.view.obj_id + further
            next_page = self._tokens.make(_DIFF, one.view.obj_id, place, selection.text(), listed)
        return Page(tuple(found), next_page, one.reference, other.reference)

    def between(self, call: Call, after: ReferenceSpec, upto: ReferenceSpec) -> tuple[str, ...]:
        """Returns the commits after one, up to and with another, the oldest first."""
        start = self._resolver.read(call, Action.READ_LOG, after).view
        end = self._resolver.read(call, Action.READ_LOG, upto).view
        if not is_ancestor(self._context.views, start, end):
            raise ReferenceNotFound(
                f"Could not find commit '{after.text()}' in reference '{upto.text()}'."
            )
        count = end.sequence - start.sequence
        if count > REBASE_COMMITS_MAX:
            raise Invalid(f"a range has at most {REBASE_COMMITS_MAX} commits, not {count}")
        line = islice(iterate_log(self._context.views, end.obj_id), count)
        return tuple(reversed([view.obj_id.hex() for view in line]))

    def _entry(self, view: CommitView, *, with_operations: bool) -> tuple[LogEntry, int]:
        """Returns a commit, and about how many bytes it takes."""
        meta = meta_of(view)
        operations, size = self._operations(view) if with_operations else (None, 0)
        return LogEntry(meta, view.parent.hex(), operations), size + len(meta.message)

    def _operations(self, view: CommitView) -> tuple[tuple[Put | Delete, ...], int]:
        changes = [
            change
            for change in own_changes(self._context.views, self._context.nodes, view)
            if change.key[0] == Universe.TABLES
        ]
        elements = sorted({change.right for change in changes if change.right is not None})
        raws = load_values(self._context, elements)
        loaded = {element: self._types.decode(raws[element]) for element in elements}
        operations: list[Put | Delete] = []
        for change in changes:
            key = table_elements(Key(change.key))
            if change.right is None:
                operations.append(Delete(key=key))
            else:
                operations.append(Put(key=key, content=loaded[change.right]))
        return tuple(operations), sum(map(len, raws.values()))

    def _differences(
        self, left: CommitView, right: CommitView, selection: Selection, at: bytes
    ) -> Iterator[Difference]:
        nodes = self._context.nodes
        within = selection.range()
        if not selection.keys:
            return diff(nodes, left.tables, right.tables, at, within.end)
        keys = [key for key in selection.named_keys() if key >= at]
        keys = [key for key in keys if within.end is None or key < within.end]
        pairs = zip(
            keys,
            find_many(nodes, left.tables, keys),
            find_many(nodes, right.tables, keys),
            strict=True,
        )
        return (Difference(key, old, new) for key, old, new in pairs if old != new)

    def _diff_entries(self, changes: Sequence[Difference]) -> list[DiffEntry]:
        sides = chain.from_iterable((change.left, change.right) for change in changes)
        elements = sorted({element for element in sides if element is not None})
        loaded = load_contents(self._context, self._types, elements)
        return [
            DiffEntry(
                table_elements(Key(change.key)),
                loaded.get(change.left or b""),
                loaded.get(change.right or b""),
            )
            for change in changes
        ]
