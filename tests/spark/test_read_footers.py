"""What the footer of a file of another table shows; no session is needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from lochan.spark.read.footers import FOREIGN, _FooterReader


def columns(*, digits: int = 9, names: tuple[str, str] = ("a", "b")) -> Schema:
    first, second = names
    inner = iceberg.StructType(
        iceberg.NestedField(4, first, iceberg.LongType(), required=False),
        iceberg.NestedField(5, second, iceberg.DecimalType(digits, 2), required=False),
    )
    return Schema(
        iceberg.NestedField(1, first, iceberg.LongType(), required=False),
        iceberg.NestedField(2, second, iceberg.DecimalType(digits, 2), required=False),
        iceberg.NestedField(3, "s", inner, required=False),
    )


def footer_answer(folder: Path, written: pa.Schema, table: Schema) -> str | None:
    path = folder / "rows.parquet"
    pq.write_table(written.empty_table(), path)
    names_json = create_mapping_from_schema(table).model_dump_json()
    answers = _FooterReader(names_json, table.model_dump_json(), 2, {})(
        [pa.record_batch({"path": [str(path)]})]
    )
    (answer,) = [held for batch in answers for held in batch.column("held").to_pylist()]
    assert answer is None or isinstance(answer, str)
    return answer


def test_a_file_with_the_ids_names_and_digits_of_its_table_is_read_by_its_ids(tmp_path):
    written = schema_to_pyarrow(columns())
    assert footer_answer(tmp_path, written, columns()) is None
    # An older name that no other column has is no danger.
    assert footer_answer(tmp_path, written, columns(names=("c", "d"))) is None
    assert footer_answer(tmp_path, written, Schema(columns().fields[0])) is None


@pytest.mark.parametrize(
    "table",
    [
        columns(digits=18),
        columns(names=("b", "a")),
        columns(names=("B", "c")),
        Schema(*columns().fields[:2], columns(digits=18).fields[2]),
        Schema(*columns().fields[:2], columns(names=("b", "a")).fields[2]),
    ],
)
def test_a_file_with_a_name_or_digits_of_another_table_is_foreign(tmp_path, table):
    assert footer_answer(tmp_path, schema_to_pyarrow(columns()), table) == FOREIGN


def test_a_file_without_ids_tells_what_it_holds(tmp_path):
    written = schema_to_pyarrow(columns(), include_field_ids=False)
    answer = footer_answer(tmp_path, written, columns(digits=18))
    assert answer is not None
    held = Schema.model_validate_json(answer)
    assert held.find_field("s.b").field_id == 5
