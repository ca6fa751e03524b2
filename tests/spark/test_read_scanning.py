"""What the reader in executors leaves out of a file: never a row that the filter wants."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import expressions
from pyiceberg import types as iceberg
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record

from lochan.spark.read.arrow import rows_of
from lochan.spark.read.predicates import ExpressionFilter

# The stubs know only names of arguments that are never written.
X: Any = expressions
NAN = math.nan
INNER = iceberg.StructType(
    iceberg.NestedField(4, "r", iceberg.IntegerType(), required=True),
    iceberg.NestedField(5, "o", iceberg.IntegerType(), required=False),
)
METADATA: TableMetadata = new_table_metadata(
    Schema(
        iceberg.NestedField(1, "x", iceberg.DoubleType(), required=False),
        iceberg.NestedField(2, "a.b", iceberg.LongType(), required=False),
        iceberg.NestedField(3, "s", INNER, required=False),
        iceberg.NestedField(6, "n", iceberg.LongType(), required=False),
    ),
    PartitionSpec(),
    UNSORTED_SORT_ORDER,
    "memory",
)


def passed(folder: Path, records: list[dict], where: str | BooleanExpression) -> list[dict]:
    """The rows of a file, one row group, that reach Spark."""
    schema = METADATA.schema()
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(records, schema_to_pyarrow(schema)), path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(records),
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    expression = parse(where) if isinstance(where, str) else where
    condition = ExpressionFilter(expression, schema, case_sensitive=True).node(lambda: "UTC")
    batches = rows_of(PyArrowFileIO(), METADATA, schema, condition, FileScanTask(file))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("values", [[1.0, NAN], [1.0, NAN, None], [1.0, 2.0, NAN], [0.0, NAN]])
@pytest.mark.parametrize(
    "where",
    ["x != 1", "x != 0", "x not in (1.0, 2.0)", "x is nan", "x > 5", "x >= 5", "not x <= 1"],
)
def test_nan_is_not_lost_by_statistics_that_do_not_count_it(tmp_path, values, where):
    found = passed(tmp_path, [{"x": each} for each in values], where)
    assert any(row["x"] is not None and math.isnan(row["x"]) for row in found)


def test_null_is_not_lost_where_it_is_no_nan(tmp_path):
    found = passed(tmp_path, [{"x": 1.0}, {"x": None}], "x is not nan")
    assert {"x": None, "a.b": None, "s": None, "n": None} in found


def test_a_required_field_of_a_struct_that_is_null_is_null(tmp_path):
    there = {"r": 1, "o": None}
    records: list[dict] = [{"s": there}, {"s": None}]
    for where in ("s.r is null", "not s.r is not null", "s.o is null"):
        assert None in [row["s"] for row in passed(tmp_path, records, where)], where
    for where in ("s.r is not null", "not s.r is null", "s.r < 99999999999", "s.r = 1"):
        assert there in [row["s"] for row in passed(tmp_path, records, where)], where


def test_a_filter_on_a_name_with_a_dot_is_left_to_spark(tmp_path):
    records = [{"a.b": 1, "n": 1}, {"a.b": 2, "n": 2}]
    assert [row["a.b"] for row in passed(tmp_path, records, X.EqualTo("a.b", 2))] == [1, 2]
    both = X.And(X.EqualTo("a.b", 2), X.EqualTo("n", 2))
    assert [row["a.b"] for row in passed(tmp_path, records, both)] == [2]


def test_what_pyarrow_can_check_does_not_reach_spark(tmp_path):
    records = [{"n": each} for each in (1, 2, 7, None)]
    assert [row["n"] for row in passed(tmp_path, records, "n < 2")] == [1]
    assert [row["n"] for row in passed(tmp_path, records, "n in (2, 3)")] == [2]
    assert [row["n"] for row in passed(tmp_path, records, "n > 5 or n = 2")] == [2, 7]
    assert [row["n"] for row in passed(tmp_path, records, "n > 1 and not n = 2")] == [2, 7]
