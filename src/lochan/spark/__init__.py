"""The data pipeline on Spark: tables by branch, audits before publishing, history as frames.

    from lochan.spark import Lake, session

`lake` is where every job begins; `read`, `write`, `history` and `audit` are what it does. Needs the
extra `spark`. Imports from `client`, `wire`, `iceberg`, `embedded`, `catalog.iceberg`, `model` and
`base` only; no jar, no RDD and no gateway to the JVM, so that the same code runs on `local[*]`, on
a cluster and through Connect.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

# At once, because the module has the name of its function and would else replace it.
from lochan.spark.session import session

if TYPE_CHECKING:
    from lochan.spark.history.catch_up import catch_up
    from lochan.spark.history.sink import append_to
    from lochan.spark.history.source import register
    from lochan.spark.lake import Lake

__all__ = ["Lake", "append_to", "catch_up", "register", "session"]

_PLACES: Final = {
    "Lake": "lochan.spark.lake",
    "append_to": "lochan.spark.history.sink",
    "catch_up": "lochan.spark.history.catch_up",
    "register": "lochan.spark.history.source",
}


def __getattr__(name: str) -> Any:
    # Only when asked for: workers import the data source from here and need no pyiceberg.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
