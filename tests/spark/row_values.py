"""What was read, in a form in which two readers can be compared."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa


def rows(found: Any) -> list[dict[str, Any]]:
    """Returns the rows of a frame, a scan or an Arrow table, in one order."""
    if hasattr(found, "toArrow"):
        found = found.toArrow()
    elif hasattr(found, "to_arrow"):
        found = found.to_arrow()
    assert isinstance(found, pa.Table)
    return sorted((plain(row) for row in found.to_pylist()), key=repr)


def plain(value: Any) -> Any:
    """Returns a value as both readers write it down."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, uuid.UUID):
        return str(value)
    return value
