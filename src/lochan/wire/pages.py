"""The fields that every page of a listing begins with."""

from __future__ import annotations

import msgspec


class PageJson(msgspec.Struct, frozen=True, rename="camel"):
    """A page: whether another one follows, and the token that requests it."""

    has_more: bool
    token: str | None
