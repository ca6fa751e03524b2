"""Listing the files of a branch or a commit: prefix, delimiter, pages.

A page of a branch is read like a single file (`reader.py`): the staged records and the head under
one row of the branch, and the row again afterwards. Pages of one listing may be of different
moments.

With a delimiter, files below a common prefix are one item: all that is between the prefix of the
listing and the next delimiter. Their number does not matter, because the sources jump over them.

A page passes a bounded number of deleted files; then it ends early, with a position to go on from.
"""

from __future__ import annotations

import msgspec

from lochan.base.errors import Invalid
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, file_path, prefix_end
from lochan.base.limits.staging import LISTING_HIDDEN_MAX
from lochan.base.names import RefName
from lochan.codec.elements import decode_file, encode_text, is_remove
from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.views import CommitView
from lochan.model.entries import FileEntry
from lochan.persist.staged import StagedRecords, tokens_of
from lochan.staging.layers import Layers, index_source, token_source
from lochan.staging.reader import BranchReader

_FILES = bytes((Universe.FILES,))

# Before it are the records of jobs, which are no files.
FILES_BEGIN = _FILES + b"\x01"


class ListedFile(msgspec.Struct, frozen=True, gc=False):
    """A file of a listing."""

    path: str
    entry: FileEntry


class CommonPrefix(msgspec.Struct, frozen=True, gc=False):
    """All files below a path that ends with the delimiter."""

    path: str


class ListingPage(msgspec.Struct, frozen=True):
    """One page; `next_after` is the position after which the next one begins, None at the end."""

    items: tuple[ListedFile | CommonPrefix, ...]
    next_after: str | None


class ListingRange(msgspec.Struct, frozen=True):
    """What is listed: files below a prefix, after a position."""

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    limit: int = 1_000

    def keys(self) -> tuple[bytes, bytes | None]:
        """Returns the first key and the one before which the range ends."""
        prefix = _FILES + encode_text(self.prefix)
        end = prefix_end(prefix)
        start = max(prefix, FILES_BEGIN)
        if self.after:
            position = _FILES + encode_text(self.after)
            behind = self.common(self.after) == self.after
            past = (prefix_end(position) if behind else None) or position + b"\0"
            start = max(start, past)
        return start, end

    def common(self, path: str) -> str | None:
        """Returns the common prefix that a path is listed under, None if as itself."""
        if not self.delimiter or not path.startswith(self.prefix):
            return None
        at = path.find(self.delimiter, len(self.prefix))
        return None if at < 0 else path[: at + len(self.delimiter)]


class Listings:
    """Lists the files of one repository."""

    def __init__(
        self, context: RepositoryContext, records: StagedRecords, reader: BranchReader
    ) -> None:
        self._context = context
        self._records = records
        self._reader = reader

    def page(
        self,
        branch: RefName,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int = 1_000,
    ) -> ListingPage:
        """Returns files of a branch after a position, in order, staged ones included."""
        wanted = _checked(ListingRange(prefix, delimiter, after, limit))
        return self._reader.read(branch, lambda row: self._page(wanted, row))

    def page_at(
        self,
        view: CommitView,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int = 1_000,
    ) -> ListingPage:
        """Returns files of a commit after a position, in order."""
        wanted = _checked(ListingRange(prefix, delimiter, after, limit))
        start, end = wanted.keys()
        index = view.index(Universe.FILES)
        return _read_page(wanted, Layers([index_source(self._context.nodes, index, start, end)]))

    def _page(self, wanted: ListingRange, row: ReferenceRow) -> ListingPage:
        start, end = wanted.keys()
        head = self._context.views.load(ObjId(row.pointer))
        sources = [token_source(self._records, token, start, end) for token in tokens_of(row)]
        base = index_source(self._context.nodes, head.index(Universe.FILES), start, end)
        return _read_page(wanted, Layers([*sources, base]))


def _checked(wanted: ListingRange) -> ListingRange:
    if wanted.limit < 1:
        raise Invalid("a page of a listing has at least one item")
    return wanted


def _read_page(wanted: ListingRange, layers: Layers) -> ListingPage:
    items: list[ListedFile | CommonPrefix] = []
    hidden = 0
    while len(items) < wanted.limit:
        found = layers.next()
        if found is None:
            return ListingPage(tuple(items), None)
        key, record = found
        path = file_path(Key(key))
        if is_remove(record):
            hidden += 1
            if hidden > LISTING_HIDDEN_MAX:
                return ListingPage(tuple(items), path)
            continue
        common = wanted.common(path)
        if common is None:
            items.append(ListedFile(path, decode_file(record)))
            continue
        items.append(CommonPrefix(common))
        past = prefix_end(_FILES + encode_text(common))
        if past is None:
            return ListingPage(tuple(items), None)
        layers.seek(past)
    more = layers.peek() is not None
    return ListingPage(tuple(items), items[-1].path if more else None)
