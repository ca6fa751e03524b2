"""Iceberg metadata as plain dictionaries: requirements checked and updates applied, no IO.

The engine knows tables of formats 1 to 3 and views of format 1. What it does not know (fields,
types, transforms) it keeps as it came. What comes in may be hostile: anything that is not as the
specification says is refused with Invalid, and nothing that came in is ever changed.
"""

from __future__ import annotations

from lochan.catalog.iceberg.requirements import check_requirements
from lochan.catalog.iceberg.tables import apply_updates, build_table, table_content
from lochan.catalog.iceberg.views import (
    apply_view_updates,
    build_view,
    check_view_requirements,
    view_content,
)

__all__ = [
    "apply_updates",
    "apply_view_updates",
    "build_table",
    "build_view",
    "check_requirements",
    "check_view_requirements",
    "table_content",
    "view_content",
]
