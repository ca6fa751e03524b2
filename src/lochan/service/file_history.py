"""Use cases that compare files of two states, and find the commits that changed files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import Invalid
from lochan.base.ids import EMPTY_ID, ID_BYTES, ObjId
from lochan.base.keys import file_key, prefix_end
from lochan.base.limits.files import FILE_LOG_SCANNED_MAX, LOG_PATHS_MAX
from lochan.catalog.meta import meta_of
from lochan.kernel.history import merge_base
from lochan.kernel.key_log import Search, SearchedKeys, changed_files, search_line
from lochan.kernel.tokens import PageToken
from lochan.model.commits import LogEntry
from lochan.model.files import FileDifference
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.service.file_base import FileUseCases
from lochan.service.file_listings import difference_of
from lochan.service.file_pages import (
    PathSelection,
    RawPage,
    fold_page,
    open_place,
    page_limit,
    seal_place,
)
from lochan.service.file_sources import Sides
from lochan.service.readable_keys import covers, join_rights
from lochan.service.resolve import Resolved

_DIFF: Final = "files that differ"
_LOG: Final = "log of files"


class _Compared(msgspec.Struct, frozen=True):
    """Two commits, what tokens are bound to, from which key on, and the keys that are shown."""

    one: Resolved
    other: Resolved
    listed: str
    start: bytes
    keys: KeyRight | None


class FileHistory(FileUseCases):
    """Reads the history of the files of one repository."""

    def diff(
        self,
        call: Call,
        left: ReferenceSpec,
        right: ReferenceSpec,
        prefix: str = "",
        delimiter: str = "",
        limit: int | None = None,
        token: str | None = None,
        *,
        since_base: bool = False,
        after: str = "",
    ) -> Page[FileDifference]:
        """Returns the committed files that differ; pages stay on both commits.

        With `since_base` the left side is the merge base of both. Files of equal identity do not
        differ. A path is left out unless the caller may read it on both sides.
        """
        selection = PathSelection(prefix=prefix, delimiter=delimiter, after=after)
        selection.check()
        wanted = f"{selection.text()}\0{since_base}"
        compared = self._compare(call, left, right, selection, wanted, token, since_base=since_base)
        count = page_limit(limit)
        views = compared.one.view, compared.other.view

        def read(at: bytes, end: bytes | None, step: int) -> RawPage[Sides]:
            found = list(islice(changed_files(self._context.nodes, *views, at, end), step))
            further = found[-1].key + b"\0" if len(found) == step else None
            return [(each.key, (each.left, each.right)) for each in found], further

        folded = fold_page(read, compared.keys, selection, compared.start, count)
        further = None
        if folded.next_start is not None:
            place = folded.next_start
            if folded.conceals:
                nonce = self._context.random.random_bytes(16)
                place = seal_place(self._context.description.token_key, nonce, place)
            place = compared.other.view.obj_id + place
            further = self._tokens.make(
                _DIFF, compared.one.view.obj_id, place, wanted, compared.listed
            )
        items = tuple(difference_of(path, sides) for path, sides in folded.items)
        return Page(items, further, compared.one.reference, compared.other.reference)

    def _compare(
        self,
        call: Call,
        left: ReferenceSpec,
        right: ReferenceSpec,
        selection: PathSelection,
        wanted: str,
        token: str | None,
        *,
        since_base: bool,
    ) -> _Compared:
        """Resolves and decides on what is compared."""
        resolver, action = self._resolver, Action.READ_ENTRIES
        one, other = resolver.read(call, action, left), resolver.read(call, action, right)
        listed = f"{resolver.listed(left, one)} {resolver.listed(right, other)}"
        start, base = selection.range().start, one.view.obj_id
        if token is not None:
            # The position names the second commit before the key.
            base, place = self._tokens.read(PageToken(token), _DIFF, wanted, listed)
            other = resolver.read_at(call, action, right, other, ObjId(place[:ID_BYTES]))
            start = open_place(self._context.description.token_key, place[ID_BYTES:])
        elif since_base:
            found = merge_base(self._context.views, one.view, other.view)
            base = EMPTY_ID if found is None else found.obj_id
        if base != one.view.obj_id:
            one = resolver.read_at(call, action, left, one, base)
        return _Compared(one, other, listed, start, join_rights(one.keys, other.keys))

    def log(
        self,
        call: Call,
        spec: ReferenceSpec,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: int | None = None,
        token: str | None = None,
        *,
        limit_hash: ReferenceSpec | None = None,
    ) -> Page[LogEntry]:
        """Returns the commits that changed one of these files, or a file with such a prefix.

        Each page looks at a bounded number of commits, so it may be short, or empty, and still have
        a token. Paths that the caller may not read count as never changed.
        """
        count = page_limit(limit)
        named, ranges = _searched(paths, prefixes)
        resolved = self._resolver.read(call, Action.READ_LOG, spec)
        listed = self._resolver.listed(spec, resolved)
        wanted = "\0".join([*paths, "", *prefixes, limit_hash.text() if limit_hash else ""])
        begin, last = resolved.view, None
        if token is not None:
            start, end = self._tokens.read(PageToken(token), _LOG, wanted, listed)
            begin = self._resolver.read_at(call, Action.READ_LOG, spec, resolved, start).view
            last = ObjId(end) if end else None
        elif limit_hash is not None:
            limited = self._resolver.read_on(call, Action.READ_LOG, resolved, limit_hash)
            last = limited.view.obj_id
        right = self._resolver.key_right(call, Action.READ_ENTRIES, resolved)
        keys = [key for key in named if covers(right, key)]
        searched = SearchedKeys(keys, ranges, None if right is None else right.covers)
        search = Search(
            wanted=searched, found_max=count, scanned_max=FILE_LOG_SCANNED_MAX, last=last
        )
        page = search_line(self._context, begin, search)
        found = tuple([LogEntry(meta_of(view), view.parent.hex()) for view in page.commits])
        next_page = None
        if page.further is not None:
            next_page = self._tokens.make(_LOG, page.further, last or b"", wanted, listed)
        return Page(found, next_page, resolved.reference)


def _searched(
    paths: Sequence[str], prefixes: Sequence[str]
) -> tuple[list[bytes], list[tuple[bytes, bytes | None]]]:
    """Returns the keys of paths, and the ranges of prefixes."""
    if not 0 < len(paths) + len(prefixes) <= LOG_PATHS_MAX:
        raise Invalid(f"a log of files names 1 to {LOG_PATHS_MAX} paths and prefixes")
    begins = [bytes(file_key(prefix)) if prefix else b"f\x01" for prefix in prefixes]
    ends = [prefix_end(file_key(prefix) if prefix else b"f") for prefix in prefixes]
    return sorted({bytes(file_key(path)) for path in paths}), list(zip(begins, ends, strict=True))
