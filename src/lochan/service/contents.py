"""Use cases that read contents: entries in pages, contents by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import NewerFormat
from lochan.base.keys import Key, table_elements, table_key
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, SCAN_ENTRIES_MAX
from lochan.catalog.contents import content_id_at, load_contents, payload_at
from lochan.index.layers import find_many, read_page
from lochan.kernel.tokens import PageToken
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, type_of
from lochan.model.references import Reference
from lochan.model.results import Entry, Page
from lochan.model.specs import ReferenceSpec
from lochan.rules.filters import FilterKind, compile_filter
from lochan.service.pages import KeyRange, Selection, check_limit, content_not_found
from lochan.service.readable_keys import covered, covers, ranges_of
from lochan.service.resolve import Reads, Resolved

_KIND: Final = "entries"

# The type of a content whose type neither the index nor the value states; Nessie's name.
_UNKNOWN_TYPE: Final = "UNKNOWN"


class _Listing(msgspec.Struct, frozen=True):
    """What is listed: a commit, what its tokens are bound to, which keys, from which one on.

    `contents` are the keys whose contents the caller may read, None for all.
    """

    resolved: Resolved
    listed: str
    selection: Selection
    start: bytes
    with_content: bool
    contents: KeyRight | None

    def with_contents(self, items: Sequence[tuple[bytes, bytes]]) -> AbstractSet[bytes]:
        """Returns the keys whose entries come with their contents."""
        if not self.with_content:
            return frozenset()
        keys = [key for key, _ in items]
        return frozenset(covered(self.contents, keys))


class Contents(Reads):
    """Reads the contents of one repository."""

    def entries(
        self,
        call: Call,
        spec: ReferenceSpec,
        limit: int | None = None,
        token: str | None = None,
        *,
        keys: Sequence[ContentKey] = (),
        start: ContentKey | None = None,
        end: ContentKey | None = None,
        prefix: ContentKey | None = None,
        filter: str = "",  # noqa: A002 - the name that users know
        with_content: bool = False,
    ) -> Page[Entry]:
        """Returns the entries of a commit in the order of their keys.

        A page goes on in the commit that the first one was read from, whatever the branch does.
        Keys that the caller may not read are left out; an entry whose content it may not read comes
        without it. Without a limit all are returned. A page looks at a bounded number of entries
        that a filter or a right leaves out, so it may be short, or empty, and still have a token. A
        content of a newer format does not hide the others: its entry comes without it.
        """
        selection = Selection(keys=keys, start=start, end=end, prefix=prefix, filter=filter)
        pages = self.entry_pages(call, spec, selection, limit, token, with_content=with_content)
        return next(pages)

    def entry_pages(
        self,
        call: Call,
        spec: ReferenceSpec,
        selection: Selection,
        limit: int | None = PAGE_ENTRIES_MAX,
        token: str | None = None,
        *,
        with_content: bool = False,
    ) -> Iterator[Page[Entry]]:
        """Yields the entries of one commit page by page; resolved and authorised once, at once."""
        check_limit(limit)
        listing = self._begin(call, spec, selection, token, with_content=with_content)

        def pages(further: bytes | None) -> Iterator[Page[Entry]]:
            while further is not None:
                page, further = self._page(listing, further, limit)
                yield page

        return pages(listing.start)

    def _begin(
        self,
        call: Call,
        spec: ReferenceSpec,
        selection: Selection,
        token: str | None,
        *,
        with_content: bool,
    ) -> _Listing:
        """Resolves and decides on what is listed."""
        resolver, action = self._resolver, Action.READ_ENTRIES
        resolved = resolver.read(call, action, spec)
        listed = resolver.listed(spec, resolved)
        start = selection.range().start
        if token is not None:
            commit, place = self._tokens.read(PageToken(token), _KIND, selection.text(), listed)
            resolved = resolver.read_at(call, action, spec, resolved, commit)
            start = self._reveal(resolved.view, resolved.view.tables, place)
        contents = resolver.key_right(call, Action.READ_CONTENT, resolved) if with_content else None
        resolver.record_hidden(call, action, resolved, selection.keys)
        return _Listing(resolved, listed, selection, start, with_content, contents)

    def _page(
        self, listing: _Listing, at: bytes, limit: int | None
    ) -> tuple[Page[Entry], bytes | None]:
        """Returns a page, and the key where the next one begins."""
        resolved, selection, right = listing.resolved, listing.selection, listing.resolved.keys
        accepts = compile_filter(selection.filter, FilterKind.ENTRIES)
        found: list[Entry] = []
        scanned = hidden = 0
        further: bytes | None = None
        conceals = False
        for items in self._batches(resolved, selection, at, limit):
            if hidden >= SCAN_ENTRIES_MAX:
                further, conceals = items[0][0], True
                break
            seen = items if right is None else [item for item in items if right.covers(item[0])]
            hidden += len(items) - len(seen)
            scanned += len(seen) * (1 if accepts is None else accepts.cost())
            entries = self._entries(seen, listing, whole=accepts is None)
            for (key, element), entry in zip(seen, entries, strict=True):
                if accepts is not None and not accepts.accepts_entry(entry):
                    continue
                if limit is not None and len(found) == limit:
                    further = key
                    break
                if listing.with_content and accepts is not None:
                    (entry,) = self._entries([(key, element)], listing, whole=True)
                found.append(entry)
            if further is None and accepts is not None and seen and scanned >= SCAN_ENTRIES_MAX:
                further = seen[-1][0] + b"\0"
            if further is not None:
                break
        token = None
        if further is not None:
            view = resolved.view
            place = self._conceal(view, view.tables, further) if conceals else further
            token = self._tokens.make(_KIND, view.obj_id, place, selection.text(), listing.listed)
        return Page(tuple(found), token, resolved.reference), further

    def get(self, call: Call, spec: ReferenceSpec, key: ContentKey) -> tuple[Content, Reference]:
        """Returns one content; ContentNotFound if the key holds none that the caller may read."""
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        raw = bytes(table_key(key))
        if not covers(resolved.keys, raw):
            self._resolver.record_hidden(call, Action.READ_CONTENT, resolved, (key,))
            raise content_not_found(key, spec)
        (element,) = find_many(self._context.nodes, resolved.view.tables, [raw])
        if element is None:
            raise content_not_found(key, spec)
        content = load_contents(self._context, self._types, [element])[element]
        return content, resolved.reference

    def get_many(
        self, call: Call, spec: ReferenceSpec, keys: Sequence[ContentKey]
    ) -> tuple[list[tuple[ContentKey, Content]], Reference]:
        """Returns the contents of those keys that hold one that the caller may read."""
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        raws = covered(resolved.keys, sorted({bytes(table_key(key)) for key in keys}))
        self._resolver.record_hidden(call, Action.READ_CONTENT, resolved, keys)
        elements = find_many(self._context.nodes, resolved.view.tables, raws)
        present = sorted({element for element in elements if element is not None})
        loaded = load_contents(self._context, self._types, present)
        found = [
            (table_elements(Key(raw)), loaded[element])
            for raw, element in zip(raws, elements, strict=True)
            if element is not None
        ]
        return found, resolved.reference

    def _batches(
        self, resolved: Resolved, selection: Selection, at: bytes, limit: int | None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yields elements in batches, from a key on; of hidden ones those that have to be read."""
        nodes, index, right = self._context.nodes, resolved.view.tables, resolved.keys
        within = selection.range()
        if selection.keys:
            named = [key for key in covered(right, selection.named_keys()) if key >= at]
            elements = find_many(nodes, index, named)
            items = [
                (key, element)
                for key, element in zip(named, elements, strict=True)
                if element is not None
                and key >= within.start
                and (within.end is None or key < within.end)
            ]
            if items:
                yield items
            return
        step = (
            PAGE_ENTRIES_MAX
            if limit is None or selection.filter
            else min(limit + 1, PAGE_ENTRIES_MAX)
        )
        for part in ranges_of(right, KeyRange(at, within.end)):
            start = part.start
            while page := read_page(nodes, index, start, part.end, step):
                yield page
                if len(page) < step:
                    break
                start = page[-1][0] + b"\0"
                if right is not None:
                    # Much of it may be hidden; a short page does not need many short reads.
                    step = min(step * 4, PAGE_ENTRIES_MAX)

    def _entries(
        self, items: Sequence[tuple[bytes, bytes]], listing: _Listing, *, whole: bool
    ) -> list[Entry]:
        """Returns entries, whole ones with the contents that the listing shows.

        A content of a newer format is left out of its own entry only.
        """
        shown = listing.with_contents(items) if whole else frozenset()
        find_name = self._types.find_name
        entries: list[Entry] = []
        # What the index does not state about a content, its value states.
        incomplete: list[tuple[int, bytes]] = []
        for key, element in items:
            elements = table_elements(Key(key))
            try:
                content_id = content_id_at(element)
            except NewerFormat:
                entries.append(Entry(elements, _UNKNOWN_TYPE, ""))
                continue
            name = find_name(payload_at(element))
            if content_id is None or name is None or key in shown:
                incomplete.append((len(entries), element))
            entries.append(Entry(elements, name or _UNKNOWN_TYPE, content_id or ""))
        loaded = self._load_readable(sorted({element for _, element in incomplete}))
        for at, element in incomplete:
            content = loaded.get(element)
            if content is not None:
                entry, is_shown = entries[at], items[at][0] in shown
                entries[at] = Entry(
                    entry.key,
                    type_of(content),
                    entry.content_id or content.id or "",
                    content if is_shown else None,
                )
        return entries

    def _load_readable(self, elements: Sequence[bytes]) -> dict[bytes, Content]:
        """Returns contents by element, without those of a newer format."""
        try:
            return load_contents(self._context, self._types, elements)
        except NewerFormat:
            loaded: dict[bytes, Content] = {}
            for element in elements:
                with suppress(NewerFormat):
                    loaded |= load_contents(self._context, self._types, [element])
            return loaded
