"""Schemas on write: what fits is widened or filled with NULL, what does not is refused in words."""

from __future__ import annotations

import uuid

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from pyspark.sql import types as spark_types

from lochan.base.errors import Invalid
from lochan.spark.write.frame_shape import check_shape
from tests.profile import counted
from tests.spark.readers import by_frame, by_pyiceberg, same_for_all

INNER = StructType(
    NestedField(10, "x", LongType(), required=True), NestedField(11, "y", StringType())
)
INNER_KEY = StructType(NestedField(20, "x", LongType(), required=True))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "v", DoubleType()),
    NestedField(3, "s", INNER),
    NestedField(4, "l", ListType(12, StructType(NestedField(13, "z", LongType())), False)),
    NestedField(5, "m", MapType(14, StringType(), 15, IntegerType(), False)),
)


def struct(ddl: str) -> spark_types.StructType:
    made = spark_types.DataType.fromDDL(ddl)
    assert isinstance(made, spark_types.StructType)
    return made


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("v double", "id is missing, which the table requires"),
        ("id string", "id is string and the table has bigint; cast it"),
        ("id bigint, v decimal(3,1)", "v is decimal"),
        ("id bigint, extra int", "extra is no column of the table; drop it, or add the column"),
        ("id bigint, V double", "V is no column of the table; did you mean v"),
        ("id bigint, s struct<y:string>", r"s\.x is missing, which the table requires"),
        ("id bigint, s struct<x:bigint,q:int>", r"s\.q is no column"),
        ("id bigint, s struct<x:string>", r"s\.x is string and the table has bigint"),
        ("id bigint, l array<struct<z:double>>", r"l\.element\.z is double"),
        ("id bigint, m map<string,bigint>", r"m\.value is bigint and the table has int"),
        ("id bigint, l bigint", "l is bigint and the table has array"),
        ("id bigint, id bigint", "has id more than once"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(spark, ddl, message):
    with pytest.raises(Invalid, match=message):
        check_shape("t.x", struct(ddl), SCHEMA, whole=False)


@pytest.mark.parametrize(
    "ddl",
    [
        "id bigint",
        "id int, v float",
        "v void, id smallint",
        "id tinyint, s struct<y:string,x:int>, l array<struct<>>",
        "id bigint, l array<struct<z:int>>, m map<string,smallint>",
    ],
)
def test_a_frame_that_fits_is_taken(spark, ddl):
    check_shape("t.x", struct(ddl), SCHEMA, whole=False)


ALL = (
    "id bigint, v double, s struct<x:bigint,y:string>, l array<struct<z:bigint>>, m map<string,int>"
)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("", "", ""),
        ("s struct<x:bigint,y:string>", "s void", ""),
        (", v double", "", "v is missing; rows that match are replaced whole"),
        (",y:string", "", r"s\.y is missing; rows that match are replaced whole"),
        ("struct<z:bigint>", "struct<>", r"l\.element\.z is missing; rows that match"),
    ],
)
def test_what_replaces_whole_rows_has_every_field_of_every_struct(spark, before, after, message):
    frame = struct(ALL.replace(before, after))
    if not message:
        check_shape("t.x", frame, SCHEMA, whole=True)
        return
    with pytest.raises(Invalid, match=message):
        check_shape("t.x", frame, SCHEMA, whole=True)


def test_a_merge_takes_no_field_from_the_rows_that_it_replaces(lake):
    row = "1L as id, named_struct('x', 1L, 'zip', if(rand() < 2, 'a', null)) as a"
    lake.write(lake.spark.sql(f"select {row}"), "t.nested")
    lacking = lake.spark.sql("select 1L as id, named_struct('x', 2L) as a")
    with pytest.raises(Invalid, match=r"a\.zip is missing; rows that match"):
        lake.write(lacking, "t.nested", mode="merge", keys=["id"])
    assert by_pyiceberg(lake, "t.nested") == ["[('a', {'x': 1, 'zip': 'a'}), ('id', 1)]"]


def make(lake, name: str, schema: Schema):
    return lake.catalog.create_table(name, schema)


def test_what_is_missing_is_null_and_what_is_narrow_is_widened(lake):
    make(lake, "t.shaped", SCHEMA)
    frame = lake.spark.sql(
        """select named_struct('y', 'q', 'x', 5) as s, cast(1 as smallint) as id,
        array(named_struct('z', 7)) as l, cast(1.5 as float) as v"""
    )
    lake.write(frame, "t.shaped")
    lake.write(lake.spark.sql("select 2 as id, cast(null as void) as s"), "t.shaped")
    assert same_for_all(lake, "t.shaped", with_null_lists_of_structs=True) == [
        "[('id', 1), ('l', [{'z': 7}]), ('m', None), ('s', {'x': 5, 'y': 'q'}), ('v', 1.5)]",
        "[('id', 2), ('l', None), ('m', None), ('s', None), ('v', None)]",
    ]


STRUCTS = Schema(NestedField(1, "id", LongType(), required=True), NestedField(3, "s", INNER))
LISTS = Schema(
    NestedField(1, "l", ListType(2, INNER, element_required=True)),
    NestedField(3, "m", MapType(4, StringType(), 5, LongType(), value_required=True)),
)


DEEP = Schema(
    NestedField(
        1,
        "d",
        ListType(
            2,
            StructType(
                NestedField(3, "a", MapType(4, StringType(), 5, ListType(6, INNER, False), False))
            ),
            False,
        ),
    ),
    NestedField(7, "k", MapType(8, INNER_KEY, 9, IntegerType(), False)),
)
DEEP_ROW = (
    "array(null, named_struct('a', null), named_struct('a', map('k', null, 'j', array(null, "
    "named_struct('x', 1L), named_struct('x', cast({} as long))))))"
)


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        (STRUCTS, "cast(null as long) as id", "NULL in id, which t.needed requires"),
        (STRUCTS, "1L as id, named_struct('x', cast(null as long)) as s", "NULL in s.x"),
        (LISTS, "array(named_struct('x', 1L), null) as l", "NULL in l.element, which t.needed"),
        (LISTS, "array(named_struct('x', cast(null as long))) as l", "NULL in l.element.x"),
        (LISTS, "map('k', cast(null as long)) as m", "NULL in m.value, which t.needed requires"),
        (DEEP, f"{DEEP_ROW.format('null')} as d", "NULL in d.element.a.value.element.x"),
        (DEEP, "map(named_struct('x', cast(null as long)), 1) as k", "NULL in k.key.x"),
    ][:: counted(3, 1)],
)
def test_null_where_a_value_is_required_is_refused(lake, schema, row, message):
    make(lake, "t.needed", schema)
    before = lake.client.references.get("main").hash
    with pytest.raises(Invalid, match=message.replace(".", r"\.")):
        lake.write(lake.spark.sql(f"select {row} from range(5)"), "t.needed")
    assert lake.client.references.get("main").hash == before


def test_null_structs_lists_and_maps_hide_what_they_require(lake):
    make(lake, "t.structs", STRUCTS)
    make(lake, "t.lists", LISTS)
    lake.write(lake.spark.sql("select 1L as id, null as s"), "t.structs")
    rows = "array(named_struct('x', 1L, 'y', cast(null as string))) as l, map('k', 1L) as m"
    lake.write(
        lake.spark.sql(
            f"select {rows} union all select null, null union all select array(), map()"
        ),
        "t.lists",
    )
    make(lake, "t.deep", DEEP)
    deep = f"{DEEP_ROW.format('2')} as d, map(named_struct('x', 1L), null) as k"
    lake.write(lake.spark.sql(f"select {deep}"), "t.deep")
    assert lake.read("t.deep").count() == 1
    assert len(same_for_all(lake, "t.structs")) == 1
    assert len(same_for_all(lake, "t.lists", with_null_lists_of_structs=True)) == 3


def test_uuids_and_fixed_bytes_are_stored_as_such(lake):
    schema = Schema(
        NestedField(1, "u", UUIDType()),
        NestedField(2, "f", FixedType(3)),
        NestedField(3, "n", LongType()),
    )
    make(lake, "t.bytes", schema)
    token = str(uuid.uuid4())
    lake.write(
        lake.spark.sql(f"select '{token}' as u, cast('abc' as binary) as f, 1L as n"), "t.bytes"
    )
    assert by_pyiceberg(lake, "t.bytes") == [f"[('f', b'abc'), ('n', 1), ('u', '{token}')]"]
    other = lake.spark.sql(f"select '{token}' as u, cast('xyz' as binary) as f, 2L as n")
    lake.write(other, "t.bytes", mode="merge", keys=["u"])
    assert [row.n for row in lake.read("t.bytes").collect()] == [2]
    with pytest.raises(Invalid, match="widths must match"):
        lake.write(lake.spark.sql("select cast('abcd' as binary) as f"), "t.bytes")
    with pytest.raises(Invalid, match="badly formed"):
        lake.write(lake.spark.sql("select 'not one' as u"), "t.bytes")


def test_a_table_that_was_evolved_is_written_in_its_new_shape(lake):
    lake.write(lake.spark.sql("select 1 as a, 'x' as b, 'gone' as c"), "t.evolved")
    with lake.catalog.load_table("t.evolved").update_schema() as update:
        update.rename_column("b", "name")
        update.delete_column("c")
        update.add_column("more", StringType())
        update.update_column("a", LongType())
        update.move_first("more")
    with pytest.raises(Invalid, match="b is no column"):
        lake.write(lake.spark.sql("select 1 as a, 'x' as b"), "t.evolved")
    lake.write(lake.spark.sql("select 2L as a, 'y' as name, 'm' as more"), "t.evolved")
    lake.write(
        lake.spark.sql("select 'Z' as more, 1L as a, 'z' as name"),
        "t.evolved",
        mode="merge",
        keys=["a"],
    )
    expected = lake.spark.sql(
        "select 'm' as more, 2L as a, 'y' as name union all select 'Z', 1L, 'z'"
    )
    assert same_for_all(lake, "t.evolved") == by_frame(expected)


def test_a_type_that_iceberg_lacks_makes_no_table(lake):
    with pytest.raises(Invalid, match="Iceberg has no type"):
        lake.write(lake.spark.sql("select interval '1' day as i"), "t.odd")
    with pytest.raises(Invalid, match="there is no column 'q'"):
        lake.write(lake.spark.range(1), "t.odd", partition_by=["q"])
