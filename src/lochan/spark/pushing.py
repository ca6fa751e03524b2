"""Filters that Spark hands to a reader, as bounds on what is asked of the server.

Bounds may let through more than the filter says, never less: every filter is handed back, so that
Spark applies it again. What is not understood is no bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise
from typing import Final

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from lochan.base.errors import InvalidKey
from lochan.base.keys import table_key
from lochan.base.limits import KEY_ELEMENTS_MAX, SPARK_KEYS_PUSHED_MAX
from lochan.model.commits import ContentKey

_LAST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_DELETE: Final = 0x7F

# No longer start is looked for than this, far below what a key may have.
_START_CHARACTERS_MAX: Final = 100


class Bounds(msgspec.Struct, frozen=True):
    """What the filters leave; numbers of commits and keys, all ends included.

    `keys` are the only ones that can be meant, None if that is not known.
    """

    seq_min: int = 1
    seq_max: int | None = None
    keys: tuple[ContentKey, ...] | None = None
    start: ContentKey | None = None
    end: ContentKey | None = None


def bounds_of(filters: Iterable[Filter]) -> Bounds:
    """Returns what all filters together leave."""
    bounds = Bounds()
    for each in filters:
        attribute = getattr(each, "attribute", ())
        if attribute == ("seq",):
            bounds = _seq(bounds, each)
        elif attribute == ("name",) and bounds.keys is None:
            bounds = _name(bounds, each)
    return bounds


def _seq(bounds: Bounds, each: Filter) -> Bounds:
    value = getattr(each, "value", None)
    if not isinstance(value, int):
        return bounds
    low, high = bounds.seq_min, bounds.seq_max
    if isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo):
        low = max(low, value + isinstance(each, GreaterThan))
    if isinstance(each, LessThan | LessThanOrEqual | EqualTo):
        upper = value - isinstance(each, LessThan)
        high = upper if high is None else min(high, upper)
    return msgspec.structs.replace(bounds, seq_min=low, seq_max=high)


def _name(bounds: Bounds, each: Filter) -> Bounds:
    value = getattr(each, "value", None)
    if not isinstance(value, str) or not isinstance(each, EqualTo | StringStartsWith):
        return bounds
    if isinstance(each, EqualTo):
        keys = _keys_called(value)
        if keys is not None:
            return msgspec.structs.replace(bounds, keys=keys)
    first = value.split(".")[0][:_START_CHARACTERS_MAX]
    if not _may_exist((first,)):
        return bounds
    return msgspec.structs.replace(bounds, start=(first,), end=_after(first))


def _keys_called(name: str) -> tuple[ContentKey, ...] | None:
    """Returns all keys with that name: any of its dots may be inside an element."""
    words = name.split(".")
    dots = range(1, len(words))
    if 1 << len(dots) > SPARK_KEYS_PUSHED_MAX or len(words) > KEY_ELEMENTS_MAX:
        return None
    found = []
    for number in range(len(words)):
        for cuts in combinations(dots, number):
            ends = (0, *cuts, len(words))
            pairs = pairwise(ends)
            found.append(tuple(".".join(words[one:other]) for one, other in pairs))
    return tuple(key for key in found if _may_exist(key))


def _may_exist(key: ContentKey) -> bool:
    """Tells whether any repository may hold a key; to ask for another would be refused."""
    try:
        table_key(key)
    except InvalidKey:
        return False
    return True


def _after(text: str) -> ContentKey | None:
    """Returns a key behind all whose first element starts so; keys are in the order of UTF-8."""
    following = ord(text[-1]) + 1
    if following == _DELETE:
        following += 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return None if following > _LAST else (text[:-1] + chr(following),)
