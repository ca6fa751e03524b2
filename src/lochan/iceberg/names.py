"""Identifiers of pyiceberg as keys of the repository, and as directories of the warehouse.

`shop.orders` is the key `("shop", "orders")`; a tuple is used as it is, so that its elements may
contain dots. Keys are case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lochan.base.errors import InvalidKey
from lochan.base.keys import table_key
from lochan.base.limits.iceberg import DIRECTORY_CHARACTERS_MAX
from lochan.model.commits import ContentKey

_PRINTED_CHARACTERS_MAX: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def key_of(identifier: str | tuple[str, ...]) -> ContentKey:
    """Returns the key of a table, view or namespace; InvalidKey if it cannot be stored."""
    key = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    try:
        table_key(key)
    except InvalidKey as error:
        text = repr(identifier)[:_PRINTED_CHARACTERS_MAX]
        raise InvalidKey(f"{text} names no table, view or namespace: {error.message}") from None
    return key


def text_of(key: ContentKey) -> str:
    """Returns a key as text, its elements separated by dots."""
    return ".".join(key)


def parents_of(key: ContentKey) -> Iterator[ContentKey]:
    """Yields the namespaces that contain a key, outermost first."""
    return (key[:size] for size in range(1, len(key)))


def directory_of(element: str) -> str:
    """Returns an element as the name of a directory that all engines can read.

    Two elements may have the same directory: the caller adds a unique suffix if it needs its own.
    """
    plain = _UNSAFE.sub("_", element)[:DIRECTORY_CHARACTERS_MAX]
    return "_" if not plain.strip(".") else plain
