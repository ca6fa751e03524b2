"""Listing the files of a branch or a commit: prefix, delimiter, pages."""

from __future__ import annotations

import msgspec

from lochan.base.names import RefName
from lochan.kernel.views import CommitView
from lochan.model.entries import FileEntry


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


class Listings:
    """Lists the files of one repository."""

    def page(
        self,
        branch: RefName,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int = 1_000,
    ) -> ListingPage:
        """Returns files of a branch after a position, in order, staged ones included."""
        raise NotImplementedError

    def page_at(
        self,
        view: CommitView,
        prefix: str = "",
        delimiter: str = "",
        after: str = "",
        limit: int = 1_000,
    ) -> ListingPage:
        """Returns files of a commit after a position, in order."""
        raise NotImplementedError
