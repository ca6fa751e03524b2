"""Partitions: every transform puts every row where PyIceberg itself would have put it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyarrow.parquet import ParquetFile
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from lochan.base.errors import Invalid
from lochan.spark.write.transforms import build_spec
from tests.spark.readers import same_for_all

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestamptzType()),
    NestedField(3, "region", StringType()),
    NestedField(4, "place", StructType(NestedField(5, "country", StringType()))),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False)),
    NestedField(8, "region_trunc_2", IntegerType()),
)


# Before and after 1970, at the edges of every unit, with NULL and what Spark's directories mix up.
DAYS = [(1970, 1, 1), (1969, 12, 31), (1960, 2, 29), (2024, 5, 6), (2024, 5, 31), (2024, 6, 1)]
INSTANTS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1960, 2, 29, 5, tzinfo=UTC),
    datetime(2024, 5, 6, 7, 8, tzinfo=UTC),
    datetime(2024, 5, 31, 23, tzinfo=UTC),
    datetime(2300, 1, 1, tzinfo=UTC),
    None,
]
COLUMNS = {
    "i int": [0, -1, 1, -(2**31), 2**31 - 1, 34, None, 11],
    "l long": [0, -1, 2**62, -(2**62), 34, 34, None, None],
    "s string": ["", "a", "abc", "äöüß", "a/b=c%2F d", "iceberg", None, "ab"],
    "b binary": [b"", b"\x00", b"abc", b"abd", b"\xff\xfe", b"ab", None, None],
    "d date": [*(date(*day) for day in DAYS), None, date(2024, 6, 1)],
    "tz timestamp": [*INSTANTS, None],
    "nt timestamp_ntz": [*(each and each.replace(tzinfo=None) for each in INSTANTS), None],
    "m decimal(9,2)": [
        *map(Decimal, ("0.00", "-0.01", "10.65", "-10.65", "9999999.99", "14.20")),
        *(None, None),
    ],
    "f double": [0.0, -0.0, float("nan"), float("inf"), 1.5, -1.5, None, 1.5],
    "t boolean": [True, False, True, False, True, True, None, None],
}
ROWS = list(zip(*COLUMNS.values(), strict=True))

# PyIceberg takes each source once in a spec, so these are as many as the busiest column has.
SPECS = [
    ["i", "l", "s", "b", "d", "tz", "nt", "m", "t"],
    [f"bucket(4, {name})" for name in ("i", "l", "s", "b", "d", "tz", "nt", "m")],
    [*(f"truncate(2, {name})" for name in "ilsbm"), "year(d)", "year(tz)", "year(nt)"],
    ["month(d)", "month(tz)", "month(nt)"],
    ["day(d)", "day(tz)", "day(nt)"],
    ["hour(tz)", "hour(nt)"],
]


def frame_of(lake, repeat: int = 1):
    made = lake.spark.createDataFrame(ROWS * repeat, ", ".join(COLUMNS))
    return made.repartition(2)


def placed(table) -> dict[str, set[str]]:
    """Returns which rows lie in which partition, as a table's files say."""
    found: dict[str, set[str]] = {}
    for task in table.scan().plan_files():
        record = task.file.partition
        place = repr([record[at] for at in range(len(record))])
        held = ParquetFile(task.file.file_path.removeprefix("file://")).read().to_pylist()
        found.setdefault(place, set()).update(repr(sorted(row.items())) for row in held)
    return found


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_transform_places_rows_as_pyiceberg_does(lake, zone):
    lake.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with lake.writing(job="all") as batch:
            for number, words in enumerate(SPECS):
                batch.write(frame_of(lake), f"ours.n{number}", partition_by=words)
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    for number, words in enumerate(SPECS):
        ours = lake.catalog.load_table(f"ours.n{number}")
        theirs = lake.catalog.create_table(
            f"theirs.n{number}", ours.schema(), partition_spec=ours.spec()
        )
        theirs.append(ours.scan().to_arrow())
        assert placed(ours) == placed(theirs), words
        assert sum(len(held) for held in placed(ours).values()) == len(ROWS)


def test_a_partition_that_is_not_a_number_is_kept_and_replaced(lake):
    lake.write(frame_of(lake), "t.floats", partition_by=["f"])
    places = placed(lake.catalog.load_table("t.floats"))
    assert {place for place, held in places.items()} == {
        *("[0.0]", "[nan]", "[inf]", "[1.5]", "[-1.5]", "[None]")
    }
    lake.write(frame_of(lake).where("isnan(f)"), "t.floats", mode="overwrite_partitions")
    assert lake.read("t.floats").count() == len(ROWS)
    lake.write(frame_of(lake).where("f = 0.0"), "t.floats", mode="overwrite")
    assert lake.read("t.floats").count() == 2


def test_several_transforms_together_and_inside_a_struct(lake):
    frame = frame_of(lake, 3).selectExpr("*", "named_struct('region', s, 'n', i) as place")
    by = ["bucket(3, l)", "day(tz)", "place.region", "void(i)", "year(d)"]
    lake.write(frame, "t.many", partition_by=by)
    table = lake.catalog.load_table("t.many")
    assert [field.name for field in table.spec().fields] == [
        *("l_bucket_3", "tz_day", "place.region", "i_null", "d_year")
    ]
    assert len(same_for_all(lake, "t.many")) == len(ROWS) * 3
    # All rows are in one file for each partition: they were brought together before.
    files = list(table.scan().plan_files())
    assert len({repr(task.file.partition) for task in files}) == len(files)


def test_null_in_one_field_is_not_null_in_another(lake):
    frame = lake.spark.createDataFrame(
        [("x", None), (None, "x"), ("", None), (None, None)], "a string, b string"
    )
    lake.write(frame, "t.nulls", partition_by=["a", "b"])
    assert len(list(lake.catalog.load_table("t.nulls").scan().plan_files())) == 4


def test_a_long_text_as_partition_needs_no_long_file_name(lake):
    frame = lake.spark.createDataFrame([("x" * 5_000,), ("/" * 300,)], "s string")
    lake.write(frame, "t.long", partition_by=["s"])
    assert len(same_for_all(lake, "t.long")) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("bucket(id)", "bucket(NUMBER, column)"),
        ("bucket(0, id)", "bucket(NUMBER, column)"),
        ("week(ts)", "there is no week"),
        ("day(when)", "there is no column 'when'"),
        ("hour(region)", "hour does not take string"),
        ("tags", "identity does not take list"),
        ("tags.element", "no column"),
        ("truncate(2, region)", "'region_trunc_2' is taken"),
    ],
)
def test_words_that_name_no_partition_are_refused(words, told):
    with pytest.raises(Invalid, match=told.replace("(", r"\(").replace(")", r"\)")):
        build_spec(SCHEMA, [words])


def test_words_are_read_in_the_ways_that_people_write_them():
    spec = build_spec(SCHEMA, ["BUCKET( 16,id )", "days(ts)", "identity(region)", "place.country"])
    assert [(each.name, str(each.transform), each.source_id) for each in spec.fields] == [
        ("id_bucket_16", "bucket[16]", 1),
        ("ts_day", "day", 2),
        ("region", "identity", 3),
        ("place.country", "identity", 5),
    ]
    assert build_spec(SCHEMA, ["truncate(id, 8)"]).fields[0].name == "id_trunc_8"
    with pytest.raises(Invalid, match="is taken"):
        build_spec(SCHEMA, ["day(ts)", "days(ts)"])
