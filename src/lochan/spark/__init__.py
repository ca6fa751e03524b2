"""The data pipeline on Spark: tables by branch, audits before publishing, history as frames.

    from lochan.spark import Lake, session

Needs the extra `spark`. Imports from `client`, `iceberg`, `embedded`, `catalog.iceberg`, `model`
and `base` only; no jar, no RDD and no gateway to the JVM, so that the same code runs on `local[*]`,
on a cluster and through Connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# At once, because the module has the name of its function and would else stand in its place.
from lochan.spark.session import session

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

__all__ = ["Lake", "session"]


def __getattr__(name: str) -> Any:
    # Only when asked for: workers import the data source from here and need no pyiceberg.
    if name == "Lake":
        from lochan.spark.lake import Lake

        return Lake
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
