"""Transforms of columns into partition values and sort keys: which type each can take.

A transform that this package does not know is not checked.
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

_SOURCE_TYPES: Final[dict[str, frozenset[str]]] = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
    "truncate": _NUMBERS | _BYTES,
    "bucket": _NUMBERS | _BYTES | _DATES | {"time", "fixed", "uuid"},
}
_KNOWN_TYPES: Final = frozenset().union(*_SOURCE_TYPES.values()) | {"boolean", "float", "double"}
_NO_IDENTITY: Final = frozenset({"variant", "geometry", "geography"})


def normal_transform(text: str) -> str:
    """Returns a transform in the form that is compared."""
    return text.strip().lower()


def check_transform(transform: str, column: Column, use: str) -> None:
    """Raises Invalid if the transform does not support the type of a column."""
    text = normal_transform(transform)
    name = text
    numbered = _WITH_NUMBER.fullmatch(text)
    if numbered:
        name = numbered[1]
        if not 0 < int(numbered[2]) <= INT_MAX:
            raise Invalid(f"{transform}: the number must be between 1 and {INT_MAX}")
    if type(column.type) is dict:
        raise Invalid(f"Cannot {use} by non-primitive source field: {column.path}")
    kind = type_name(column.type)
    source_types = _SOURCE_TYPES.get(name)
    if source_types is None:
        refused = name == "identity" and kind in _NO_IDENTITY
    else:
        # A type that this package does not know may be supported.
        refused = kind not in source_types and kind in _KNOWN_TYPES | _NO_IDENTITY
    if refused:
        raise Invalid(f"Invalid source type {column.type} for transform: {text}")
