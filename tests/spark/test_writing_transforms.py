"""Partitions: every transform puts every row where PyIceberg itself would have put it."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
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
    UUIDType,
)

from lochan.base.errors import Invalid
from lochan.spark.write.transforms import build_spec, transform_array, values_of
from tests.profile import counted
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
    """Returns which rows lie in which partition, according to the files of a table."""
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
    ("words", "message"),
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
def test_words_that_name_no_partition_are_refused(words, message):
    with pytest.raises(Invalid, match=message.replace("(", r"\(").replace(")", r"\)")):
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


FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def by_python(when: datetime) -> dict[str, int]:
    """Returns the units since 1970 that an instant is in, by whole numbers alone."""
    since = when - FIRST
    return {
        "year": when.year - 1970,
        "month": (when.year - 1970) * 12 + when.month - 1,
        "day": when.toordinal() - FIRST.toordinal(),
        "hour": since // timedelta(hours=1),
    }


LAST_SECONDS = st.builds(
    lambda day, micros: FIRST + timedelta(days=day, hours=24, microseconds=-micros),
    st.integers(-40_000, 40_000),
    st.integers(0, 1_000_001),
)


@given(st.datetimes(timezones=st.just(UTC)) | LAST_SECONDS)
@example(datetime(1960, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC))
@example(datetime(1969, 12, 30, 23, 59, 59, 1, tzinfo=UTC))
@example(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
@example(datetime(1600, 2, 29, 23, 59, 59, 999_998, tzinfo=UTC))
def test_an_instant_is_in_its_own_year_month_day_and_hour(when):
    for kind, zone in (("timestamptz", "UTC"), ("timestamptz", "Asia/Tokyo"), ("timestamp", None)):
        values = pa.array([when, None], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
        for transform, expected in by_python(when).items():
            found = transform_array(transform, kind, values).cast(pa.int32())
            assert found.to_pylist() == [expected, None], transform


@given(st.dates())
def test_a_day_is_in_its_own_year_and_month(day):
    expected = by_python(datetime(day.year, day.month, day.day, tzinfo=UTC))
    for transform in ("year", "month", "day"):
        found = transform_array(transform, "date", pa.array([day], pa.date32())).cast(pa.int32())
        assert found.to_pylist() == [expected[transform]]


def test_the_last_second_of_a_day_before_1970_is_of_that_day(lake):
    rows = [
        (f"{day} {time}",)
        for day in ("1960-12-31", "1969-12-30", "1900-02-28")
        for time in ("12:00:00", "23:59:59.999")
    ]
    frame = lake.spark.createDataFrame(rows, "s string").selectExpr("cast(s as timestamp) as ts")
    lake.write(frame, "t.late", partition_by=["day(ts)"])
    files = list(lake.catalog.load_table("t.late").scan().plan_files())
    assert sorted(task.file.partition[0] for task in files) == [-25_509, -3_288, -2]
    late = "1960-12-31 23:59:59.999"
    assert lake.read("t.late", where=f"ts = '{late.replace(' ', 'T')}+00:00'").count() == 1
    lake.write(frame.where(f"ts = timestamp'{late}'"), "t.late", mode="overwrite_partitions")
    assert lake.read("t.late").count() == 5


TOKENS = [uuid.UUID(int=number * 0x1_0001_0001_0001_0001_0001) for number in range(1, 6)]
IDS = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "n", LongType()))


@pytest.mark.parametrize("words", ["u", "bucket(4, u)"])
def test_uuids_are_placed_by_their_bytes(words):
    spec = build_spec(IDS, [words])
    raw = pa.array([each.bytes for each in TOKENS] + [None], pa.binary(16))
    stored = pa.chunked_array([pa.ExtensionArray.from_storage(pa.uuid(), raw)])
    (found,) = values_of(IDS, spec, [stored])
    function = spec.fields[0].transform.transform(UUIDType())
    expected = {function(each) for each in TOKENS} | {None}
    if words == "u":
        expected = {each and each.bytes for each in expected}
    assert set(found) == expected
    texts = pa.array([str(each).upper() for each in TOKENS] + [None, "no uuid"])
    if words != "u":
        groups = transform_array(str(spec.fields[0].transform), "uuid", texts).to_pylist()
        assert groups == [*map(function, TOKENS), None, None]


@pytest.mark.parametrize("words", [["u"], ["bucket(4, u)"], ["void(u)"]][: counted(1, 3)])
def test_a_table_by_uuid_is_written_and_its_partitions_are_replaced(lake, words):
    lake.catalog.create_namespace("t")
    lake.catalog.create_table("t.ids", IDS, partition_spec=build_spec(IDS, words))
    rows = [(str(each), number) for number, each in enumerate(TOKENS)]
    frame = lake.spark.createDataFrame([*rows, (None, 99)], "u string, n long")
    lake.write(frame, "t.ids")
    assert len(same_for_all(lake, "t.ids")) == 6
    lake.write(frame.where("n = 2"), "t.ids", mode="overwrite_partitions")
    place = build_spec(IDS, words).fields[0].transform.transform(UUIDType())
    kept = {number for number, each in enumerate(TOKENS) if place(each) != place(TOKENS[2])}
    kept |= {99} if place(TOKENS[2]) is not None else set()
    assert {row.n for row in lake.read("t.ids").collect()} == {2, *kept}
    with pytest.raises(Invalid, match="badly formed"):
        lake.write(lake.spark.sql("select 'not one' as u"), "t.ids")
