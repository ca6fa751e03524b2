"""Keys as people type them: elements with dots between, quoted where an element holds one.

sales.orders        two elements
sales."v1.orders"   two elements, the second with a dot
"say ""hi"", Bob"   one element; quotes inside are doubled
"""

from __future__ import annotations

import re
from typing import Final

import click

from lochan.base.errors import InvalidKey
from lochan.base.keys import table_key
from lochan.model.commits import ContentKey

_ELEMENT: Final = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')


def parse_key(text: str) -> ContentKey:
    """Reads a key; InvalidKey if it is none."""
    elements: list[str] = []
    at = 0
    while True:
        match = _ELEMENT.match(text, at)
        if match is None:
            break
        quoted, bare = match.groups()
        elements.append(bare if quoted is None else quoted.replace('""', '"'))
        at = match.end()
        if at == len(text):
            table_key(elements)
            return tuple(elements)
        if text[at] != ".":
            break
        at += 1
    raise InvalidKey(
        f"not a key: {text!r}; elements have dots between, and one that holds a dot or a quote "
        'stands in quotes: sales."v1.orders"'
    )


def key_text(key: ContentKey) -> str:
    """Writes a key as `parse_key` reads it."""
    return ".".join(_element(part) for part in key)


def _element(part: str) -> str:
    if part and "." not in part and '"' not in part:
        return part
    return '"' + part.replace('"', '""') + '"'


class KeyType(click.ParamType[ContentKey, object]):
    """A key as an argument of a command."""

    name = "key"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> ContentKey:
        """Reads the key, or ends the command as called wrongly."""
        if isinstance(value, tuple):
            return value
        try:
            return parse_key(str(value))
        except InvalidKey as error:
            self.fail(error.message, param, ctx)


KEY: Final = KeyType()
