"""Listings of entries: one page, or all pages written slice by slice.

All entries of a large commit as objects would take hundreds of megabytes, and to release them at
once would delay all other requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.http.exchange import Exchange
from lochan.http.nessie.params import read_call
from lochan.model.results import Entry, Page
from lochan.model.specs import ReferenceSpec
from lochan.service.pages import Selection
from lochan.wire.codec import encode, joined

_Shown = TypeVar("_Shown")


def whole_or_page(
    exchange: Exchange,
    spec: ReferenceSpec,
    selection: Selection,
    paging: tuple[int | None, str | None],
    show: Callable[[Entry], _Shown],
    *,
    with_content: bool = False,
) -> tuple[list[_Shown], Page[Any]]:
    """Returns the entries of one page, or without a limit and a filter those of all pages.

    The second is the page that states where all was read and whether there is more.
    """
    limit, token = paging
    is_page = limit is not None or bool(selection.filter)
    pages = exchange.repository.contents.entry_pages(
        read_call(exchange),
        spec,
        selection,
        limit if is_page else PAGE_ENTRIES_MAX,
        token,
        with_content=with_content,
    )
    first = next(pages)
    if is_page:
        return [show(entry) for entry in first.items], first
    written = [encode([show(entry) for entry in first.items])]
    written += [encode([show(entry) for entry in page.items]) for page in pages]
    whole: Page[Entry] = Page((), None, first.reference)
    # Encoded bytes in place of the list: the encoder of the answer writes them as they are.
    return cast("list[_Shown]", joined(written)), whole
