"""Patterns of repositories, references, keys and paths, compiled to sets of names.

A pattern is a name, or `*` alone for all names, or a prefix that ends at a separator, with `*`
after it: `dev/*` is everything below `dev`, not `dev` and not `dev2/x`. There is no other form, and
no name of a caller or of a reference is ever inserted into a pattern.

The separator is `/` in names of repositories and references and in paths, `.` between the elements
of a key. A dot inside an element is written as U+001D, as Nessie does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from lochan.access.spans import EVERYTHING, NOTHING, Spans, one_name, prefixed, union
from lochan.base.errors import Invalid
from lochan.base.keys import SEPARATOR, Universe, file_key, table_key
from lochan.base.limits.policies import STATEMENT_ITEMS_MAX
from lochan.base.names import known_name
from lochan.rules.values import DOT_INSIDE

ALL_NAMES: Final = "*"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_TABLES: Final = union([prefixed(bytes((Universe.TABLES,)))])
_FILES: Final = union([prefixed(bytes((Universe.FILES,)))])

ALL_KEYS: Final = _TABLES | _FILES
"""The keys of both universes, as the index stores them."""

_Range = tuple[bytes, bytes]


def compile_names(patterns: Sequence[str]) -> Spans:
    """Returns the names of repositories or references that patterns cover."""
    return _compile(patterns, EVERYTHING, _named)


def compile_keys(keys: Sequence[str], paths: Sequence[str]) -> Spans:
    """Returns the keys, as the index stores them, that patterns of keys and of paths cover.

    If only one of both is limited, the patterns are about that one: `sales.*` with `*` for all
    paths covers no file. None of one kind are covered by an empty list.
    """
    tables = _compile(keys, _TABLES, _keyed)
    files = _compile(paths, _FILES, _filed)
    if tables == _TABLES and files not in (_FILES, NOTHING):
        return files
    if files == _FILES and tables not in (_TABLES, NOTHING):
        return tables
    return tables | files


def _compile(patterns: Sequence[str], everything: Spans, read: Callable[[str], _Range]) -> Spans:
    if len(patterns) > STATEMENT_ITEMS_MAX:
        raise Invalid(f"a list has at most {STATEMENT_ITEMS_MAX} patterns, not {len(patterns)}")
    ranges: list[_Range] = []
    found_all = False
    for pattern in patterns:
        if pattern == ALL_NAMES:
            found_all = True
        else:
            ranges.append(read(pattern))
    return everything if found_all else union(ranges)


def _split(pattern: str, separator: str, control: str = "") -> tuple[str, bool]:
    """Returns a name, or the prefix with its separator and True; Invalid for any other form."""
    if not pattern:
        raise Invalid("a pattern is empty; `*` is the one for all names")
    bad = _CONTROL.search(pattern.replace(control, "") if control else pattern)
    if bad is not None:
        raise Invalid(f"the pattern {pattern[:80]!r} has the control character {bad[0]!r}")
    prefix, star, rest = pattern.partition(ALL_NAMES)
    if not star:
        return pattern, False
    if rest or not prefix.endswith(separator):
        raise Invalid(
            f"the pattern {pattern[:80]!r} has a `*` that is neither the whole pattern nor its end "
            f"after a {separator!r}; `dev{separator}*` is what is below `dev`"
        )
    return prefix, True


def _named(pattern: str) -> _Range:
    text, is_prefix = _split(pattern, "/")
    try:
        known_name(f"{text}x" if is_prefix else text)
    except Invalid as error:
        raise Invalid(f"the pattern {pattern[:80]!r} covers no name: {error.message}") from None
    raw = text.encode()
    return prefixed(raw) if is_prefix else one_name(raw)


def _keyed(pattern: str) -> _Range:
    text, is_prefix = _split(pattern, ".", DOT_INSIDE)
    elements = [element.replace(DOT_INSIDE, ".") for element in text.split(".")]
    if is_prefix:
        elements.pop()
    try:
        raw = bytes(table_key(elements))
    except Invalid as error:
        raise Invalid(f"the pattern {pattern[:80]!r} covers no key: {error.message}") from None
    return prefixed(raw + SEPARATOR.encode()) if is_prefix else one_name(raw)


def _filed(pattern: str) -> _Range:
    text, is_prefix = _split(pattern, "/")
    try:
        raw = bytes(file_key(text))
    except Invalid as error:
        raise Invalid(f"the pattern {pattern[:80]!r} covers no path: {error.message}") from None
    return prefixed(raw) if is_prefix else one_name(raw)
