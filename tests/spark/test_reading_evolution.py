"""Tables whose columns have changed since their files were written, read by both readers.

PyIceberg's own scan is the oracle. Filters are asked for, too: a reader that finds the right column
may still skip rows by the statistics of a wrong one.
"""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from lochan.spark.lake import Lake
from lochan.spark.read.arrow import arrow_frame
from lochan.spark.read.table_reader import plan_read
from tests.profile import counted
from tests.spark.row_values import rows

NUMBERS = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "b", LongType(), required=False),
)


@pytest.fixture
def numbers(lake) -> Table:
    """Rows with a = 0..9 and b = 100..109."""
    table = lake.catalog.create_table("t.numbers", NUMBERS)
    table.append(pa.table({"a": range(10), "b": range(100, 110)}))
    return table


def append(table: Table, records: list[dict]) -> None:
    """Appends rows in the table's present columns."""
    table.append(pa.Table.from_pylist(records, table.schema().as_arrow()))


def agree(lake: Lake, table: Table, *filters: str) -> None:
    """Checks that Spark, PyIceberg in executors and PyIceberg here find the same rows."""
    name = ".".join(table.name())
    oracle = rows(table.scan())
    assert rows(lake.read(name)) == oracle
    plan = plan_read(lake, name, ref="main")
    by_arrow = arrow_frame(lake, plan.table, plan.schema, plan.condition, plan.tasks)
    assert rows(by_arrow) == oracle
    assert lake.read(name).schema.names == by_arrow.schema.names
    for where in filters:
        assert rows(lake.read(name, where=where)) == rows(table.scan(row_filter=where)), where


def test_a_renamed_column_keeps_its_rows(lake, numbers):
    with numbers.update_schema() as change:
        change.rename_column("a", "c")
    append(numbers, [{"c": 77, "b": 0}])
    agree(lake, numbers, "c = 3", "c = 77", "b >= 108")


def test_a_column_that_was_added_later_is_null_in_older_rows(lake, numbers):
    with numbers.update_schema() as change:
        change.add_column("c", StringType())
    append(numbers, [{"a": 1, "b": 2, "c": "x"}])
    agree(lake, numbers, "c is null", "c = 'x'", "c is not null and a < 5")


def test_a_name_that_was_given_to_another_column_finds_the_new_one(lake, numbers):
    with numbers.update_schema() as change:
        change.delete_column("a")
    with numbers.update_schema() as change:
        change.add_column("a", LongType())
    append(numbers, [{"a": 1_000, "b": 1}])
    agree(lake, numbers, "a is null", "a is not null", "a = 3", "a = 1000", "b = 105")
    assert lake.read("t.numbers").where("a is null").count() == 10


def test_names_that_were_exchanged_find_their_columns(lake, numbers):
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        with numbers.update_schema() as change:
            change.rename_column(old, new)
    append(numbers, [{"b": 5, "a": 500}])
    agree(lake, numbers, "a = 103", "b = 3", "a = 3", "a > 105 and b < 8")


def test_the_order_of_columns_is_that_of_the_table(lake, numbers):
    with numbers.update_schema() as change:
        change.move_first("b")
    append(numbers, [{"b": 5, "a": 500}])
    agree(lake, numbers, "a = 3")
    assert lake.read("t.numbers").columns == ["b", "a"]


def test_widened_numbers_keep_their_values(lake):
    schema = Schema(
        NestedField(1, "i", IntegerType(), required=False),
        NestedField(2, "f", FloatType(), required=False),
        NestedField(3, "d", DecimalType(9, 2), required=False),
    )
    table = lake.catalog.create_table("t.wide", schema)
    append(table, [{"i": n, "f": n / 4, "d": Decimal(n) / 4} for n in range(-3, 8)])
    with table.update_schema() as change:
        change.update_column("i", field_type=LongType())
        change.update_column("f", field_type=DoubleType())
        change.update_column("d", field_type=DecimalType(20, 2))
    append(table, [{"i": 2**40, "f": 1e300, "d": Decimal("123456789012345.25")}, {"i": None}])
    agree(lake, table, "i = 5", "i > 100", "f >= 1.5", "d = 1.25", "d > 1000", "i is null")


NESTED = Schema(
    NestedField(
        1,
        "s",
        StructType(
            NestedField(2, "x", IntegerType(), required=False),
            NestedField(3, "y", StringType(), required=False),
        ),
        required=False,
    ),
    NestedField(
        4,
        "l",
        ListType(5, StructType(NestedField(6, "p", LongType(), required=False)), False),
        required=False,
    ),
    NestedField(
        7,
        "m",
        MapType(
            8,
            StringType(),
            9,
            StructType(NestedField(10, "q", LongType(), required=False)),
            value_required=False,
        ),
        required=False,
    ),
)


def test_fields_inside_structs_lists_and_maps_are_found_by_id(lake):
    table = lake.catalog.create_table("t.nested", NESTED)
    append(
        table,
        [
            {"s": {"x": 1, "y": "a"}, "l": [{"p": 1}, None], "m": [("k", {"q": 1}), ("n", None)]},
            {"s": None, "l": None, "m": None},
            {"s": {"x": None, "y": None}, "l": [], "m": []},
        ],
    )
    with table.update_schema() as change:
        change.rename_column("s.x", "z")
        change.update_column("s.x", field_type=LongType())
        change.add_column(("s", "new"), LongType())
        change.rename_column("l.p", "pp")
        change.add_column(("l", "r"), StringType())
        change.rename_column("m.q", "qq")
        change.add_column(("m", "w"), StringType())
    append(
        table,
        [
            {
                "s": {"z": 2**40, "y": "b", "new": 7},
                "l": [{"pp": 2, "r": "r"}],
                "m": [("k", {"qq": 5, "w": "w"})],
            }
        ],
    )
    agree(lake, table, "s.z = 1", "s.new is null", "s.y = 'b'")


def test_a_name_inside_a_struct_that_was_given_away_finds_the_new_field(lake):
    table = lake.catalog.create_table("t.nested", NESTED)
    append(table, [{"s": {"x": n, "y": str(n)}, "l": None, "m": None} for n in range(5)])
    with table.update_schema() as change:
        change.delete_column("s.x")
    with table.update_schema() as change:
        change.add_column(("s", "x"), LongType())
    agree(lake, table, "s.x is null", "s.x = 3", "s.y = '3'")
    assert lake.read("t.nested").where("s.x is null").count() == 5


def test_a_column_alone_is_read_whatever_has_become_of_the_others(lake, numbers):
    with numbers.update_schema() as change:
        change.rename_column("a", "old a.b")
    with numbers.update_schema() as change:
        change.add_column("a", StringType())
    append(numbers, [{"old a.b": 1, "b": 2, "a": "x"}])
    for column in ("old a.b", "b", "a"):
        found = rows(lake.read("t.numbers", columns=[column]))
        assert found == sorted(({column: row[column]} for row in rows(numbers.scan())), key=repr)


def test_a_column_inside_a_struct_can_be_chosen(lake):
    table = lake.catalog.create_table("t.nested", NESTED)
    append(table, [{"s": {"x": 1, "y": "a"}, "l": [{"p": 3}], "m": []}])
    frame = lake.read("t.nested", columns=["s.y", "L"], where="s.x = 1")
    assert rows(frame) == [{"y": "a", "l": [{"p": 3}]}]


def test_a_default_is_read_where_a_file_is_older_than_its_column(lake, numbers):
    wider = {
        **NUMBERS.model_dump(by_alias=True, mode="json"),
        "schema-id": 1,
        "fields": [
            {"id": 1, "name": "a", "type": "long", "required": False},
            {"id": 2, "name": "b", "type": "long", "required": False},
            {"id": 3, "name": "c", "type": "long", "required": False, "initial-default": 7},
        ],
    }
    numbers._do_commit(
        updates=(
            UpgradeFormatVersionUpdate.model_validate({"format-version": 3}),
            AddSchemaUpdate.model_validate({"schema": wider}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
        ),
        requirements=(),
    )
    assert {row["c"] for row in rows(lake.read("t.numbers"))} == {7}
    assert lake.read("t.numbers", where="c = 7 and a < 3").count() == 3
    assert lake.read("t.numbers", columns=["a"]).count() == 10


@pytest.mark.parametrize("seed", range(counted(1, 3)))
def test_any_order_of_changes_is_read_as_pyiceberg_reads_it(lake, seed):
    chance = random.Random(seed)
    table = lake.catalog.create_table("t.any", NUMBERS)
    names, free = ["a", "b"], ["a", "b", "c", "d"]
    for _ in range(7):
        change, name = chance.choice(["add", "drop", "rename", "first"]), chance.choice(names)
        other = chance.choice([each for each in free if each not in names] or ["z"])
        with table.update_schema() as update:
            if change == "add" and len(names) < 4:
                update.add_column(other, LongType())
                names.append(other)
            elif change == "drop" and len(names) > 1:
                update.delete_column(name)
                names.remove(name)
            elif change == "rename" and other not in names:
                update.rename_column(name, other)
                names[names.index(name)] = other
            else:
                update.move_first(name)
        append(table, [{each: chance.choice([None, *range(5)]) for each in names}] * 2)
    agree(lake, table, *(f"{name} = 3 or {name} is null" for name in names))
