"""Where files lie, and who reads and writes them: Spark itself, or pyarrow in its executors.

Spark's own readers are the fastest, but the plain package has no file system for object stores.
There, unless the session has one, executors use pyarrow; no jar is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from lochan.base.errors import Invalid

if TYPE_CHECKING:
    from lochan.spark.lake import Lake

How = Literal["native", "arrow"]

_OBJECT_STORES: Final = ("s3", "s3a", "s3n")


def warehouse_location(warehouse: str) -> str:
    """Returns a warehouse as a location: a directory becomes `file://…`; no slash at the end."""
    if not warehouse:
        raise Invalid("a lake needs a warehouse: a directory, or a location such as s3://bucket/x")
    if "://" in warehouse or warehouse.startswith("file:/"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).expanduser().resolve()}"


def how(lake: Lake, location: str) -> How:  # noqa: ARG001
    """Tells who reads and writes the files at a location."""
    return "arrow" if urlsplit(location).scheme in _OBJECT_STORES else "native"
