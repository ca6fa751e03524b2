"""Keys as text: elements separated by dots; an element with a dot or a quote is quoted.

sales.orders        two elements
sales."v1.orders"   two elements, the second contains a dot
"a ""quoted"" one"  one element; a quote inside is doubled
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
    """Returns the key that a text stands for; InvalidKey if it stands for none."""
    elements: list[str] = []
    position = 0
    while True:
        match = _ELEMENT.match(text, position)
        if match is None:
            break
        quoted, bare = match.groups()
        elements.append(bare if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if position == len(text):
            table_key(elements)
            return tuple(elements)
        if text[position] != ".":
            break
        position += 1
    raise InvalidKey(
        f"not a key: {text!r}; separate the elements by dots, and put an element that contains a "
        'dot or a quote in quotes: sales."v1.orders"'
    )


def key_text(key: ContentKey) -> str:
    """Returns a key as the text that `parse_key` reads."""
    return ".".join(_element(part) for part in key)


def _element(part: str) -> str:
    if part and "." not in part and '"' not in part:
        return part
    return '"' + part.replace('"', '""') + '"'


class KeyType(click.ParamType[ContentKey, object]):
    """A key as the argument of a command."""

    name = "key"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> ContentKey:
        """Returns the key; ends the command with a usage error if the text is not a key."""
        if isinstance(value, tuple):
            return value
        try:
            return parse_key(str(value))
        except InvalidKey as error:
            self.fail(error.message, param, ctx)


KEY: Final = KeyType()
