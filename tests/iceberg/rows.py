"""Rows, and what is in a catalog, in few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from lochan.iceberg import LochanCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
AT_ONCE = {"commit.retry.min-wait-ms": "0"}
"""Lets pyiceberg try again without waiting."""


def rows(*numbers: int) -> pa.Table:
    """A row for each number."""
    return pa.table(
        {"id": list(numbers), "name": [f"row {number}" for number in numbers]}, schema=SCHEMA
    )


def numbers(table: Table) -> list[int]:
    """The numbers of a table's rows."""
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def held(catalog: LochanCatalog, name: str | tuple[str, ...] = "shop.orders") -> list[int]:
    """The numbers of the rows that a table has on the catalog's reference."""
    return numbers(catalog.load_table(name))


def messages(catalog: LochanCatalog, ref: str = "main") -> list[str]:
    """Returns the messages of the commits of a branch, the latest first."""
    return [entry.meta.message for entry in catalog.repository.history.iterate(ref)]


def content(catalog: LochanCatalog, *key: str) -> Any:
    """What a key holds."""
    return catalog.repository.contents.get(catalog.ref, key)[0]


def metadata_files(warehouse: str) -> list[str]:
    """The names of all metadata files."""
    return sorted(path.name for path in Path(warehouse[7:]).rglob("*.metadata.json"))
