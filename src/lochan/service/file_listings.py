"""Use cases that list files: of a commit, of a branch with what is staged, and what is staged."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import LochanError
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.codec.elements import decode_file
from lochan.codec.rows import ReferenceRow
from lochan.kernel.tokens import PageToken
from lochan.model.files import FileChange, FileDifference, FileInfo, FileItem, FilePrefix
from lochan.model.results import Page
from lochan.model.specs import ReferenceSpec
from lochan.service.file_base import FileUseCases
from lochan.service.file_pages import (
    FoldedPage,
    PathSelection,
    fold_page,
    open_place,
    page_limit,
    seal_place,
)
from lochan.service.file_places import info_of
from lochan.service.file_sources import Sides
from lochan.service.resolve import Resolved

_COMMIT: Final = "files"
_BRANCH: Final = "files of a branch"
_STAGED: Final = "staged files"


class _Listing(msgspec.Struct, frozen=True):
    """What is listed, and what its page tokens are bound to; `commit` is pinned in them."""

    kind: str
    selection: PathSelection
    listed: str
    commit: ObjId
    limit: int


class FileListings(FileUseCases):
    """Lists the files of one repository."""

    def list(
        self,
        call: Call,
        spec: ReferenceSpec,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int | None = None,
        token: str | None = None,
    ) -> Page[FileItem]:
        """Returns files in the order of their paths, folded at a delimiter.

        Pages of a commit stay on it. Pages of a branch show each path as it is when its page is
        read. Paths that the caller may not read are left out; a page looks at a bounded number of
        them and of deleted files, so it may be short, or empty, and still have a token.
        """
        selection = PathSelection(prefix=prefix, delimiter=delimiter, after=after)
        selection.check()
        count = page_limit(limit)

        def live(resolved: Resolved, row: ReferenceRow) -> Page[FileItem]:
            listed = self._resolver.listed(spec, resolved)
            listing = _Listing(_BRANCH, selection, listed, EMPTY_ID, count)
            start, _ = self._start(listing, token)
            listings = self._staging.listings
            effort = listings.effort(row.name)
            folded = fold_page(
                lambda at, end, step: listings.page(row, at, end, step, effort),
                resolved.keys,
                selection,
                start,
                count,
            )
            return self._listed(folded, listing, resolved)

        def committed(resolved: Resolved) -> Page[FileItem]:
            listed = self._resolver.listed(spec, resolved)
            listing = _Listing(_COMMIT, selection, listed, resolved.view.obj_id, count)
            start, commit = self._start(listing, token)
            if commit is not None:
                resolved = self._resolver.read_at(call, Action.READ_ENTRIES, spec, resolved, commit)
                listing = msgspec.structs.replace(listing, commit=commit)
            view = resolved.view
            folded = fold_page(
                lambda at, end, step: self._sources.of_commit(view, at, end, step),
                resolved.keys,
                selection,
                start,
                count,
            )
            return self._listed(folded, listing, resolved)

        return self._read(call, Action.READ_ENTRIES, spec, live, committed)

    def uncommitted(
        self,
        call: Call,
        branch: str,
        prefix: str = "",
        delimiter: str = "",
        limit: int | None = None,
        token: str | None = None,
        after: str = "",
    ) -> Page[FileDifference]:
        """Returns the files of a branch that differ from its head, because they are staged."""
        selection = PathSelection(prefix=prefix, delimiter=delimiter, after=after)
        selection.check()
        count, spec = page_limit(limit), ReferenceSpec(branch)
        name = self._resolver.name(branch)

        def look(row: ReferenceRow) -> Page[FileDifference]:
            resolved = self._resolver.read_live(call, Action.READ_ENTRIES, row)
            listed = self._resolver.listed(spec, resolved)
            listing = _Listing(_STAGED, selection, listed, EMPTY_ID, count)
            start, _ = self._start(listing, token)
            folded = fold_page(
                lambda at, end, step: self._sources.staged(row, at, end, step),
                resolved.keys,
                selection,
                start,
                count,
            )
            items = tuple(difference_of(path, sides) for path, sides in folded.items)
            return Page(items, self._further(folded, listing), resolved.reference)

        try:
            return self._staging.reader.read(name, look)
        except LochanError:
            self._access.decide(call, Action.READ_ENTRIES, name)
            raise

    def _start(self, listing: _Listing, token: str | None) -> tuple[bytes, ObjId | None]:
        """Returns where a page begins, and the commit that its token has pinned."""
        if token is None:
            return listing.selection.range().start, None
        commit, place = self._tokens.read(
            PageToken(token), listing.kind, listing.selection.text(), listing.listed
        )
        return open_place(self._context.description.token_key, place), commit

    def _further(self, folded: FoldedPage[Any], listing: _Listing) -> str | None:
        place = folded.next_start
        if place is None:
            return None
        if folded.conceals:
            nonce = self._context.random.random_bytes(16)
            place = seal_place(self._context.description.token_key, nonce, place)
        selection = listing.selection
        return self._tokens.make(
            listing.kind, listing.commit, place, selection.text(), listing.listed
        )

    def _listed(
        self, folded: FoldedPage[bytes], listing: _Listing, resolved: Resolved
    ) -> Page[FileItem]:
        items: list[FileItem] = [
            FilePrefix(path) if element is None else info_of(path, decode_file(element))
            for path, element in folded.items
        ]
        return Page(tuple(items), self._further(folded, listing), resolved.reference)


def difference_of(path: str, sides: Sides | None) -> FileDifference:
    """Returns a path with the files of two sides; without sides it is a common prefix."""
    if sides is None:
        return FilePrefix(path)
    before, after = (_info(path, element) for element in sides)
    return FileChange(path=path, before=before, after=after)


def _info(path: str, element: bytes | None) -> FileInfo | None:
    return None if element is None else info_of(path, decode_file(element))
