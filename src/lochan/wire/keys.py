"""Keys in JSON and in URLs.

In a URL a key is one text. The legacy form joins elements by dots and writes a dot inside an
element as 0x1D; the escaped form (API spec 2.2.0 and later) starts with a dot and writes `.`, `*`,
`/`, backslash and `%` as `*.`, `**`, `*{`, `*}` and `*[`. Both are always understood.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lochan.base.errors import InvalidKey

_GROUP_SEPARATOR: Final = "\x1d"
_ESCAPES: Final = {".": "*.", "*": "**", "/": "*{", "\\": "*}", "%": "*["}
_UNESCAPES: Final = {escape[1]: mark for mark, escape in _ESCAPES.items()}
_ESCAPE: Final = re.compile(r"\*(.?)", re.DOTALL)
_ESCAPED_ELEMENT: Final = re.compile(r"\.((?:[^.*]|\*.)*)", re.DOTALL)
_NEEDS_ESCAPE: Final = re.compile(r"[./\\%]")
_TO_ESCAPED: Final = str.maketrans(_ESCAPES)


class KeyJson(msgspec.Struct, frozen=True, gc=False):
    """A key: its elements."""

    elements: tuple[str, ...]


def key_to_path(elements: tuple[str, ...], *, escaped: bool = True) -> str:
    """Returns a key as one text for a URL, not yet percent-encoded.

    The legacy form cannot hold every key: it is for servers older than API spec 2.2.0.
    """
    if not escaped:
        return ".".join(element.replace(".", _GROUP_SEPARATOR) for element in elements)
    if not any(_NEEDS_ESCAPE.search(element) for element in elements):
        return ".".join(elements)
    return "".join("." + element.translate(_TO_ESCAPED) for element in elements)


def key_from_path(text: str) -> tuple[str, ...]:
    """Reads a key from a URL; InvalidKey if it is none."""
    if not text:
        raise InvalidKey("the key is empty")
    if text[0] == ".":
        return _unescaped(text)
    elements = text.split(".")
    if "" in elements:
        raise InvalidKey(f"the key {text[:80]!r} has an empty element")
    if _GROUP_SEPARATOR in text:
        elements = [element.replace(_GROUP_SEPARATOR, ".") for element in elements]
    return tuple(elements)


def _unescaped(text: str) -> tuple[str, ...]:
    for escape in _ESCAPE.findall(text):
        if escape not in _UNESCAPES:
            raise InvalidKey(f"the key {text[:80]!r} holds the unknown escape '*{escape}'")
    elements = _ESCAPED_ELEMENT.findall(text)
    if "" in elements:
        raise InvalidKey(f"the key {text[:80]!r} has an empty element")
    return tuple(_ESCAPE.sub(lambda match: _UNESCAPES[match[1]], each) for each in elements)


def optional_key(text: str | None) -> tuple[str, ...] | None:
    """Reads a key that may be missing or empty, as parameters of listings may be."""
    return key_from_path(text) if text else None
