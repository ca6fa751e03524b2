"""Identifiers of pyiceberg as keys of the repository, and as directories of the warehouse.

`shop.orders` is the key `("shop", "orders")`; a tuple is taken as it is, so that elements may have
dots. Case counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lochan.base.errors import InvalidKey
from lochan.base.keys import table_key
from lochan.base.pipeline_limits import DIRECTORY_CHARACTERS_MAX
from lochan.model.commits import ContentKey

_SHOWN_CHARACTERS: Final = 80
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def key_of(identifier: str | tuple[str, ...]) -> ContentKey:
    """Returns the key of a table, view or namespace; InvalidKey if no repository may hold it."""
    key = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    try:
        table_key(key)
    except InvalidKey as error:
        shown = repr(identifier)[:_SHOWN_CHARACTERS]
        raise InvalidKey(f"{shown} names no table, view or namespace: {error.message}") from None
    return key


def namespace_key(namespace: str | tuple[str, ...]) -> ContentKey:
    """Returns the key of a namespace; the root is the empty tuple."""
    return () if namespace == () else key_of(namespace)


def text_of(key: ContentKey) -> str:
    """Returns a key as people write it."""
    return ".".join(key)


def parents_of(key: ContentKey) -> Iterator[ContentKey]:
    """Yields the namespaces that a key lies in, outermost first."""
    return (key[:size] for size in range(1, len(key)))


def directory_of(element: str) -> str:
    """Returns an element as the name of a directory that every engine reads alike.

    Two elements may share one: whoever needs a directory alone puts something unique behind it.
    """
    plain = _ODD.sub("_", element)[:DIRECTORY_CHARACTERS_MAX]
    return "_" if not plain.strip(".") else plain
