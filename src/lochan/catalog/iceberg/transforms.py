"""Transforms of columns into partition values and sort keys: which type each can take.

A transform that we do not know is left to those who do.
"""

from __future__ import annotations

import re
from typing import Final

from lochan.base.errors import Invalid
from lochan.catalog.iceberg.columns import Column
from lochan.catalog.iceberg.schemas import type_name
from lochan.catalog.iceberg.values import INT_MAX

VOID: Final = "void"

_WITH_NUMBER: Final = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]")

_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES: Final = _TIMESTAMPS | {"date"}
_NUMBERS: Final = frozenset({"int", "long", "decimal"})
_BYTES: Final = frozenset({"string", "binary"})

_TAKES: Final[dict[str, frozenset[str]]] = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
    "truncate": _NUMBERS | _BYTES,
    "bucket": _NUMBERS | _BYTES | _DATES | {"time", "fixed", "uuid"},
}
_KNOWN_TYPES: Final = frozenset().union(*_TAKES.values()) | {"boolean", "float", "double"}
_NEVER_WHOLE: Final = frozenset({"variant", "geometry", "geography"})


def normal_transform(text: str) -> str:
    """Returns a transform as it is compared."""
    return text.strip().lower()


def check_transform(transform: str, column: Column, use: str) -> None:
    """Raises Invalid if a column is of a type that the transform cannot take."""
    text = normal_transform(transform)
    name = text
    numbered = _WITH_NUMBER.fullmatch(text)
    if numbered:
        name = numbered[1]
        if not 0 < int(numbered[2]) <= INT_MAX:
            raise Invalid(f"{transform}: the number must be above zero, with 32 bits")
    if type(column.type) is dict:
        raise Invalid(f"Cannot {use} by non-primitive source field: {column.path}")
    kind = type_name(column.type)
    takes = _TAKES.get(name)
    if takes is None:
        refused = name == "identity" and kind in _NEVER_WHOLE
    else:
        # A type that we do not know may suit a transform in ways that we do not know.
        refused = kind not in takes and kind in _KNOWN_TYPES | _NEVER_WHOLE
    if refused:
        raise Invalid(f"Invalid source type {column.type} for transform: {text}")
