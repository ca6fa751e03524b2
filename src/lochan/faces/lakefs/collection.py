"""Pages of lakeFS, which are full unless nothing is left, made of ours, which may be short.

Ours end early where much is hidden, deleted or unchanged. Only the first one is brief work; if it
is not enough, the others are read in a thread, however many they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from lochan.model.results import Page
from lochan.transport.exchange import LongWork, Response

ReadPage = Callable[[int, str | None], Page[Any]]
"""Reads at most so many items from a token on."""

ShowItems = Callable[[list[Any], bool], Response]
"""Returns the answer of so many items, and whether there are more."""


def collect(amount: int, read: ReadPage, show: ShowItems) -> Response | LongWork:
    """Shows so many items, or all there are."""
    page = read(amount, None)
    found = list(page.items)
    if page.token is None or len(found) >= amount:
        return show(found, page.token is not None)
    return LongWork(partial(_collect_further, amount, read, show, found, page.token))


def _collect_further(
    amount: int, read: ReadPage, show: ShowItems, begun: list[Any], token: str | None
) -> Response:
    found: Final = list(begun)
    while token is not None and len(found) < amount:
        page = read(amount - len(found), token)
        found.extend(page.items)
        token = page.token
    return show(found, token is not None)
