"""Use cases that read history: logs and differences, in pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import ID_BYTES, ObjId
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
from lochan.service.pages import KeyRange, Selection, check_limit
from lochan.service.readable_keys import covered, covers, join_rights, ranges_of
from lochan.service.resolve import Reads, Resolved

_LOG: Final = "log"
_DIFF: Final = "diff"


class _Sides(msgspec.Struct, frozen=True):
    """What is compared: two commits, what tokens are bound to, from which key on.

    `keys` are those that the caller may read on both sides, None for all.
    """

    one: Resolved
    other: Resolved
    listed: str
    at: bytes
    keys: KeyRight | None


class _ShownOperations(msgspec.Struct, frozen=True):
    """Which operations a caller sees: names of keys, and of these the ones with their contents."""

    names: KeyRight | None
    contents: KeyRight | None

    def shows(self, change: Difference) -> bool:
        """Returns whether an operation is shown; a put is shown with its content or not at all."""
        return covers(self.names if change.right is None else self.contents, change.key)


class _ReadEntry(msgspec.Struct, frozen=True):
    """A commit of a log, how many operations it hides, and about how many bytes it takes.

    Hidden operations cost time, too, so a page reads a bounded number of them.
    """

    entry: LogEntry
    hidden: int
    size: int


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

        All commits are shown with their messages; of their operations those on keys that the caller
        may read. A page holds at most as many commits as are allowed for one, and ends with the one
        that fills it; a filter reads a bounded number. So a page may be short, or empty, and still
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
            self._resolver.read_at(call, Action.READ_LOG, spec, resolved, start)
            last = ObjId(end) if end else None
        accepts = compile_filter(filter, FilterKind.LOG)
        shown = None
        if fetch_all or (accepts is not None and accepts.reads_operations):
            shown = self._shown_operations(call, resolved)
        found: list[LogEntry] = []
        further: ObjId | None = None
        operations = hidden = size = 0
        for scanned, view in enumerate(iterate_log(self._context.views, start)):
            is_full = max(operations, hidden) >= LOG_OPERATIONS_MAX or size >= LOG_BYTES_MAX
            if is_full or len(found) == count or scanned == LOG_SCANNED_MAX:
                further = view.obj_id
                break
            read = self._read_entry(view, shown)
            operations += len(read.entry.operations or ())
            hidden += read.hidden
            size += read.size
            if accepts is None or accepts.accepts_log(read.entry):
                entry = read.entry
                found.append(entry if fetch_all else LogEntry(entry.meta, entry.parent))
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
        """Returns the keys whose contents differ between two commits; pages stay on both.

        A key is left out unless the caller may read it, and its content, on both sides.
        """
        check_limit(limit)
        selection = Selection(keys=keys, start=start, end=end, prefix=prefix, filter=filter)
        sides = self._sides(call, left, right, selection, token)
        accepts = compile_filter(filter, FilterKind.DIFF)
        found: list[DiffEntry] = []
        further: bytes | None = None
        scanned = hidden = 0
        changes = self._differences(sides, selection)
        while further is None:
            count = PAGE_ENTRIES_MAX if limit is None else limit - len(found) + 1
            batch = list(islice(changes, min(count, PAGE_ENTRIES_MAX)))
            if not batch:
                break
            if hidden >= SCAN_ENTRIES_MAX:
                return self._diff_page(sides, selection, found, batch[0], conceals=True)
            seen = batch
            if sides.keys is not None:
                seen = [change for change in batch if sides.keys.covers(change.key)]
            hidden += len(batch) - len(seen)
            scanned += len(seen)
            for change, entry in zip(seen, self._diff_entries(seen), strict=True):
                if accepts is not None and not accepts.accepts_diff(entry):
                    continue
                if limit is not None and len(found) == limit:
                    further = change.key
                    break
                found.append(entry)
            if further is None and accepts is not None and seen and scanned >= SCAN_ENTRIES_MAX:
                further = seen[-1].key + b"\0"
        following = None if further is None else Difference(further, None, None)
        return self._diff_page(sides, selection, found, following, conceals=False)

    def _sides(
        self,
        call: Call,
        left: ReferenceSpec,
        right: ReferenceSpec,
        selection: Selection,
        token: str | None,
    ) -> _Sides:
        """Resolves and decides on what is compared."""
        resolver, action = self._resolver, Action.READ_ENTRIES
        one, other = resolver.read(call, action, left), resolver.read(call, action, right)
        listed = f"{resolver.listed(left, one)} {resolver.listed(right, other)}"
        at = selection.range().start
        if token is not None:
            # The position names the second commit before the key.
            commit, place = self._tokens.read(PageToken(token), _DIFF, selection.text(), listed)
            one = resolver.read_at(call, action, left, one, commit)
            other = resolver.read_at(call, action, right, other, ObjId(place[:ID_BYTES]))
            at = self._revealed(one.view, other.view, place[ID_BYTES:])
        for resolved in (one, other):
            resolver.record_hidden(call, action, resolved, selection.keys)
        contents = [resolver.also(call, Action.READ_CONTENT, each) for each in (one, other)]
        return _Sides(one, other, listed, at, join_rights(one.keys, other.keys, *contents))

    def _diff_page(
        self,
        sides: _Sides,
        selection: Selection,
        found: Sequence[DiffEntry],
        following: Difference | None,
        *,
        conceals: bool,
    ) -> Page[DiffEntry]:
        """Returns a page; the next one begins at the following difference."""
        one, other = sides.one, sides.other
        token = None
        if following is not None:
            place = following.key
            if conceals:
                view = one.view if following.right is None else other.view
                place = self._conceal(view, view.tables, place)
            place = other.view.obj_id + place
            token = self._tokens.make(_DIFF, one.view.obj_id, place, selection.text(), sides.listed)
        return Page(tuple(found), token, one.reference, other.reference)

    def _revealed(self, one: CommitView, other: CommitView, place: bytes) -> bytes:
        """Returns the key of a place in a difference: a key of one of both sides."""
        try:
            return self._reveal(other, other.tables, place)
        except Invalid:
            return self._reveal(one, one.tables, place)

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

    def _shown_operations(self, call: Call, resolved: Resolved) -> _ShownOperations:
        """Returns which operations a caller may see in the log of what was resolved."""
        names, contents = (
            self._resolver.key_right(call, action, resolved)
            for action in (Action.READ_ENTRIES, Action.READ_CONTENT)
        )
        return _ShownOperations(names, join_rights(names, contents))

    def _read_entry(self, view: CommitView, shown: _ShownOperations | None) -> _ReadEntry:
        """Reads a commit, with the operations that are shown."""
        meta = meta_of(view)
        parent, size = view.parent.hex(), len(meta.message)
        if shown is None:
            return _ReadEntry(LogEntry(meta, parent), 0, size)
        changes = [
            change
            for change in own_changes(self._context.views, self._context.nodes, view)
            if change.key[0] == Universe.TABLES
        ]
        operations, values_size = self._operations(
            [change for change in changes if shown.shows(change)]
        )
        entry, hidden = LogEntry(meta, parent, operations), len(changes) - len(operations)
        return _ReadEntry(entry, hidden, size + values_size)

    def _operations(self, changes: Sequence[Difference]) -> tuple[tuple[Put | Delete, ...], int]:
        """Returns changes as operations, and how many bytes their contents take."""
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

    def _differences(self, sides: _Sides, selection: Selection) -> Iterator[Difference]:
        """Yields differences, from a key on; of hidden ones those that have to be read."""
        nodes = self._context.nodes
        left, right = sides.one.view.tables, sides.other.view.tables
        at, end = sides.at, selection.range().end
        if not selection.keys:
            for part in ranges_of(sides.keys, KeyRange(at, end)):
                yield from diff(nodes, left, right, part.start, part.end)
            return
        keys = [key for key in covered(sides.keys, selection.named_keys()) if key >= at]
        keys = [key for key in keys if end is None or key < end]
        pairs = zip(keys, find_many(nodes, left, keys), find_many(nodes, right, keys), strict=True)
        yield from (Difference(key, old, new) for key, old, new in pairs if old != new)

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
