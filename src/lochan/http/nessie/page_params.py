"""Listings without a limit, written slice by slice.

All entries of a large commit as objects would be hundreds of megabytes, and to let go of them in
one moment would keep everybody else waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from lochan.base.limits import PAGE_ENTRIES_MAX
from lochan.http.exchange import Exchange
from lochan.http.nessie.params import filter_of
from lochan.model.results import Entry, Page
from lochan.model.specs import ReferenceSpec
from lochan.wire.codec import encode, joined

_Shown = TypeVar("_Shown")


class AskForPage(Protocol):
    """Reads a page of entries of a commit."""

    def __call__(self, spec: ReferenceSpec, limit: int | None, token: str | None) -> Page[Entry]:
        """Returns the page that follows a token, or the first."""
        ...


def whole_or_page(
    exchange: Exchange,
    ask: AskForPage,
    spec: ReferenceSpec,
    paging: tuple[int | None, str | None],
    show: Callable[[Entry], _Shown],
) -> tuple[list[_Shown], Page[Any]]:
    """Returns the entries of the page that is wanted, or of all pages, ready to be written.

    The second is the page that tells where all was read and whether there is more.
    """
    limit, token = paging
    if limit is not None or filter_of(exchange):
        page = ask(spec, limit, token)
        return [show(each) for each in page.items], page
    first = page = ask(spec, PAGE_ENTRIES_MAX, token)
    written = [encode([show(each) for each in page.items])]
    while page.token is not None and first.reference is not None:
        page = ask(ReferenceSpec(None, first.reference.hash), PAGE_ENTRIES_MAX, page.token)
        written.append(encode([show(each) for each in page.items]))
    whole: Page[Entry] = Page((), None, first.reference)
    # Bytes that stand for the list; whoever writes the answer writes them as they are.
    return cast("list[_Shown]", joined(written)), whole
