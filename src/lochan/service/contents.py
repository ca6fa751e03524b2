"""Use cases that read contents: entries in pages, contents by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from lochan.base.errors import NewerFormat
from lochan.base.keys import Key, table_elements, table_key
from lochan.base.limits.requests import PAGE_ENTRIES_MAX, SCAN_ENTRIES_MAX
from lochan.catalog.contents import content_id_at, load_contents, payload_at
from lochan.index.layers import find_many, read_page
from lochan.kernel.tokens import PageToken
from lochan.kernel.views import CommitView
from lochan.model.commits import ContentKey
from lochan.model.contents import Content, type_of
from lochan.model.references import Reference
from lochan.model.results import Entry, Page
from lochan.model.specs import ReferenceSpec
from lochan.rules.filters import FilterKind, compile_filter
from lochan.service.pages import Selection, check_limit, content_not_found
from lochan.service.policy import Action, Call
from lochan.service.resolve import Reads, Resolved

_KIND: Final = "entries"

# The type of a content whose type neither the index nor the value states; Nessie's name.
_UNKNOWN_TYPE: Final = "UNKNOWN"


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
        Without a limit all are returned. A filter reads a bounded number of entries a page, so
        a page may be short, or empty, and still have a token. A content of a newer format does not
        hide the others: its entry comes without it.
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
        resolved, listed, at = self._begin(call, spec, selection, token)

        def pages(further: bytes | None) -> Iterator[Page[Entry]]:
            while further is not None:
                page, further = self._page(
                    resolved, listed, selection, further, limit, with_content=with_content
                )
                yield page

        return pages(at)

    def _begin(
        self, call: Call, spec: ReferenceSpec, selection: Selection, token: str | None
    ) -> tuple[Resolved, str, bytes]:
        """Returns what is listed: the commit, what its tokens are bound to, and the first key."""
        keys = selection.keys
        resolved = self._resolver.read(call, Action.READ_ENTRIES, spec, keys)
        listed = self._resolver.listed(spec, resolved)
        if token is None:
            return resolved, listed, selection.range().start
        commit, at = self._tokens.read(PageToken(token), _KIND, selection.text(), listed)
        return (
            self._resolver.read_at(call, Action.READ_ENTRIES, resolved, commit, keys),
            listed,
            at,
        )

    def _page(
        self,
        resolved: Resolved,
        listed: str,
        selection: Selection,
        at: bytes,
        limit: int | None,
        *,
        with_content: bool,
    ) -> tuple[Page[Entry], bytes | None]:
        """Returns a page, and the key where the next one begins."""
        accepts = compile_filter(selection.filter, FilterKind.ENTRIES)
        found: list[Entry] = []
        scanned = 0
        further: bytes | None = None
        for items in self._batches(resolved.view, selection, at, limit):
            entries = self._entries(items, with_content=with_content and accepts is None)
            scanned += len(items) * (1 if accepts is None else accepts.cost())
            for (key, element), entry in zip(items, entries, strict=True):
                if accepts is not None and not accepts.accepts_entry(entry):
                    continue
                if limit is not None and len(found) == limit:
                    further = key
                    break
                if with_content and accepts is not None:
                    (entry,) = self._entries([(key, element)], with_content=True)
                found.append(entry)
            if further is None and accepts is not None and scanned >= SCAN_ENTRIES_MAX:
                further = items[-1][0] + b"\0"
            if further is not None:
                break
        token = None
        if further is not None:
            commit = resolved.view.obj_id
            token = self._tokens.make(_KIND, commit, further, selection.text(), listed)
        return Page(tuple(found), token, resolved.reference), further

    def get(self, call: Call, spec: ReferenceSpec, key: ContentKey) -> tuple[Content, Reference]:
        """Returns one content; ContentNotFound if the key holds none."""
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec, (key,))
        raw = bytes(table_key(key))
        (element,) = find_many(self._context.nodes, resolved.view.tables, [raw])
        if element is None:
            raise content_not_found(key, spec)
        content = load_contents(self._context, self._types, [element])[element]
        return content, resolved.reference

    def get_many(
        self, call: Call, spec: ReferenceSpec, keys: Sequence[ContentKey]
    ) -> tuple[list[tuple[ContentKey, Content]], Reference]:
        """Returns the contents of those keys that hold one."""
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec, keys)
        raws = sorted({bytes(table_key(key)) for key in keys})
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
        self, view: CommitView, selection: Selection, at: bytes, limit: int | None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yields elements in batches, from a key on."""
        nodes, index = self._context.nodes, view.tables
        if selection.keys:
            named = [key for key in selection.named_keys() if key >= at]
            elements = find_many(nodes, index, named)
            within = selection.range()
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
        end = selection.range().end
        step = (
            PAGE_ENTRIES_MAX
            if limit is None or selection.filter
            else min(limit + 1, PAGE_ENTRIES_MAX)
        )
        while True:
            page = read_page(nodes, index, at, end, step)
            if page:
                yield page
            if len(page) < step:
                return
            at = page[-1][0] + b"\0"

    def _entries(self, items: Sequence[tuple[bytes, bytes]], *, with_content: bool) -> list[Entry]:
        """Returns entries; a content of a newer format is left out of its own entry only."""
        types = self._types
        elements = {element for _, element in items if _is_known(element)}
        if not with_content:
            # What the index does not state about a content, its value states.
            elements = {
                element
                for element in elements
                if types.find_name(payload_at(element)) is None or content_id_at(element) is None
            }
        loaded = self._load_readable(sorted(elements))
        entries = []
        for key, element in items:
            if not _is_known(element):
                entries.append(Entry(table_elements(Key(key)), _UNKNOWN_TYPE, ""))
                continue
            content = loaded.get(element)
            name = types.find_name(payload_at(element))
            if name is None:
                name = _UNKNOWN_TYPE if content is None else type_of(content)
            content_id = content_id_at(element) or (content.id if content is not None else None)
            entries.append(
                Entry(
                    table_elements(Key(key)),
                    name,
                    content_id or "",
                    content if with_content else None,
                )
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


def _is_known(element: bytes) -> bool:
    """Returns whether this version knows the format of a table's element."""
    try:
        content_id_at(element)
    except NewerFormat:
        return False
    return True
