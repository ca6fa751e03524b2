"""Merges into tables whose files others have written."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.spark.row_values import rows

# A name that a merge would like to use for itself.
NAMED = Schema(
    NestedField(1, "n", LongType(), required=False),
    NestedField(2, "lochan_path", StringType(), required=False),
)


def test_rows_of_imported_files_are_replaced_by_key_whatever_else_the_files_have(lake, tmp_path):
    table = lake.catalog.create_table("t.named", NAMED)
    path = tmp_path / "imported.parquet"
    narrow = pa.table({"n": [1, 2], "lochan_path": ["a", "b"]})
    pq.write_table(narrow, path)
    table.add_files([f"file://{path}"])
    # Other importers take files with more columns than the table has.
    pq.write_table(narrow.append_column("extra", pa.array(["x", "y"])), path)
    table.append(pa.table({"n": [3], "lochan_path": ["c"]}))
    new = lake.spark.createDataFrame([(2, "B"), (3, "C"), (4, "D")], "n long, lochan_path string")
    lake.write(new, "t.named", mode="merge", keys=["n"])
    found = [(row["n"], row["lochan_path"]) for row in rows(lake.read("t.named"))]
    assert found == [(1, "a"), (2, "B"), (3, "C"), (4, "D")]
