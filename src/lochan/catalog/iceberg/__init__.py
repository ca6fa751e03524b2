"""Iceberg metadata as plain dictionaries: checks requirements and applies updates, without IO.

The package supports tables of formats 1 to 3 and views of format 1. It keeps fields, types and
transforms that it does not know as they came. Input may be hostile: anything that differs from the
specification is refused with Invalid, and the input itself is never changed.
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
