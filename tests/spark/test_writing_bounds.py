"""Bounds and counts of files: never narrower than the rows, whatever a footer leaves out."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace as Fake

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import GreaterThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from lochan.spark.write.bounds import FileFacts, read_columns, upper_of_text
from lochan.spark.write.statistics import (
    build_data_file,
    build_layout,
    facts_of,
    read_facts,
)
from lochan.spark.write.transforms import build_spec
from lochan.spark.write.upsert import _span

MICROS = 1_000_000


def one(kind: PrimitiveType) -> Schema:
    return Schema(NestedField(1, "c", kind))


def facts_of_groups(tmp_path, kind: PrimitiveType, *groups: pa.Array, words=()) -> FileFacts:
    """Returns the facts of a file with these row groups."""
    schema = one(kind)
    path = f"{tmp_path}/one.parquet"
    # Large texts would be another type than the arrays of these tests have.
    arrow = schema_to_pyarrow(schema).with_metadata(None)
    arrow = pa.schema([arrow.field(0).with_type(groups[0].type)])
    with pq.ParquetWriter(path, arrow, store_schema=False) as writer:
        for group in groups:
            writer.write_table(pa.Table.from_arrays([group], schema=arrow))
    spec = build_spec(schema, words) if words else PartitionSpec()
    return read_facts(build_layout(schema, spec, {}, {}, str(tmp_path)), path)


def test_a_row_group_without_bounds_takes_those_of_the_file(tmp_path):
    # Writers leave out what is longer than 4,096 bytes.
    long, short = pa.array(["z" * 5_000]), pa.array(["b", "c"])
    for groups in ([long, short], [short, long]):
        facts = facts_of_groups(tmp_path, StringType(), *groups)
        assert (facts.lower, facts.upper, facts.null_counts) == ({}, {}, {1: 0})


def test_a_row_group_without_values_takes_nothing_from_the_bounds(tmp_path):
    groups = (pa.nulls(2, pa.string()), pa.array(["b", "c"]), pa.array([], pa.string()))
    facts = facts_of_groups(tmp_path, StringType(), *groups)
    assert (facts.lower, facts.upper, facts.null_counts) == ({1: b"b"}, {1: b"c"}, {1: 2})


class Footer:
    """A footer of one column as other writers would have written it."""

    num_columns = 1

    def __init__(self, *statistics: object) -> None:
        self._groups = [self._group(each) for each in statistics]
        self.num_row_groups = len(statistics)
        self.num_rows = 2 * len(statistics)

    def _group(self, statistics: object) -> Fake:
        column = Fake(
            path_in_schema="c",
            total_compressed_size=10,
            num_values=2,
            is_stats_set=statistics is not None,
            statistics=statistics,
            data_page_offset=4,
            has_dictionary_page=False,
            dictionary_page_offset=None,
        )
        return Fake(column=lambda _: column)

    def row_group(self, number: int) -> Fake:
        return self._groups[number]


def chunk(low, high, nulls: int | None = 0, physical: str = "DOUBLE") -> Fake:
    return Fake(
        physical_type=physical,
        has_min_max=low is not None,
        has_null_count=nulls is not None,
        null_count=nulls,
        min=low,
        max=high,
        min_raw=low,
        max_raw=high,
    )


def figures(kind: PrimitiveType, *statistics: object):
    layout = build_layout(one(kind), PartitionSpec(), {}, {}, "")
    return read_columns(FileFacts("", 0), Footer(*statistics), layout.schema, layout.plan)


NAN = float("nan")


@pytest.mark.parametrize("ends", [(100.0, NAN), (NAN, 100.0), (NAN, NAN)])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_end_that_is_no_number_takes_the_bounds_of_the_file(ends, is_first):
    groups = [chunk(*ends), chunk(1.0, 2.0)]
    found = figures(DoubleType(), *(groups if is_first else reversed(groups)))
    assert (found.lower, found.upper) == ({}, {})


def test_a_row_group_without_a_count_takes_that_of_the_file():
    for missing in (chunk(1.0, 2.0, None), None):
        found = figures(DoubleType(), chunk(1.0, 2.0, 1), missing)
        assert found.null_counts == {}
    assert figures(DoubleType(), chunk(1.0, 2.0, 1), None).lower == {}
    # Whether there are values besides NULL is not known either.
    assert figures(DoubleType(), chunk(1.0, 2.0), chunk(None, None, None)).upper == {}
    assert figures(DoubleType(), chunk(1.0, 2.0), chunk(None, None, 2)).upper != {}


@pytest.mark.parametrize("low_first", [True, False])
def test_ends_are_those_of_all_row_groups(low_first):
    groups = [chunk(1.0, 2.0), chunk(-3.0, 1.5)]
    found = figures(DoubleType(), *(groups if low_first else reversed(groups)))
    assert from_bytes(DoubleType(), found.lower[1]) == -3.0
    assert from_bytes(DoubleType(), found.upper[1]) == 2.0
    assert (found.value_counts, found.column_sizes) == ({1: 4}, {1: 20})
    decimals = figures(DecimalType(9, 2), chunk(-5, 7, physical="INT32"))
    assert from_bytes(DecimalType(9, 2), decimals.upper[1]) == Decimal("0.07")


def test_rows_that_a_file_has_are_found_by_its_bounds(tmp_path):
    facts = facts_of_groups(tmp_path, StringType(), pa.array(["z" * 5_000]), pa.array(["b", "c"]))
    file = build_data_file(facts, one(StringType()), PartitionSpec())
    above = GreaterThan(term=Reference("c"), value=literal("d"))
    assert _InclusiveMetricsEvaluator(one(StringType()), above).eval(file)


# The first microsecond of year 1 and the last of 9999 in UTC, and an hour beyond.
FIRST = -62_135_596_800 * MICROS
LAST = 253_402_300_800 * MICROS - 1
HOUR = 3_600 * MICROS


@pytest.mark.parametrize("kind", [TimestampType(), TimestamptzType()])
@pytest.mark.parametrize("words", [(), ("day(c)",), ("hour(c)",), ("c",), ("bucket(4, c)",)])
@pytest.mark.parametrize("micros", [FIRST - HOUR, LAST + HOUR])
def test_instants_outside_of_the_years_of_python_have_bounds_too(tmp_path, kind, words, micros):
    arrow = schema_to_pyarrow(one(kind)).field(0).type
    facts = facts_of_groups(tmp_path, kind, pa.array([micros], arrow), words=words)
    assert (facts.problem, facts.refused) == ("", "")
    assert int.from_bytes(facts.lower[1], "little", signed=True) == micros
    if words == ("day(c)",):
        assert facts.partition == [(micros // (24 * HOUR)).to_bytes(4, "little", signed=True)]


@pytest.mark.parametrize("words", [(), ("day(c)",), ("c",), ("bucket(4, c)",)])
@pytest.mark.parametrize("days", [-719_163, 2_932_897])
def test_days_outside_of_the_years_of_python_have_bounds_too(tmp_path, words, days):
    facts = facts_of_groups(tmp_path, DateType(), pa.array([days], pa.date32()), words=words)
    assert facts.problem == ""
    assert facts.upper[1] == days.to_bytes(4, "little", signed=True)


def test_a_text_before_the_surrogates_has_a_bound_behind_them(tmp_path):
    text = "x" * 15 + "\ud7ff" + "more"
    facts = facts_of_groups(tmp_path, StringType(), pa.array([text]))
    assert facts.upper[1].decode() == "x" * 15 + "\ue000"


LETTERS = st.text(st.sampled_from("a\ud7ff\ue000\U0010ffff\x00"), max_size=6)


@given(LETTERS, st.integers(1, 4))
def test_an_upper_bound_is_short_and_not_below_the_text(text, width):
    bound = upper_of_text(text, width)
    if bound is None:
        assert text[:width] == "\U0010ffff" * width
    else:
        assert len(bound) <= width
        assert bound.encode() >= text.encode()


def test_the_span_of_many_files_begins_with_the_empty_text():
    field = NestedField(1, "c", StringType())
    facts = [
        FileFacts(path="", size=0, lower={1: low}, upper={1: high})
        for low, high in [(b"k1", b"k2"), (b"", b""), (b"k0", b"k9")]
    ]
    span = _span([field], facts)
    assert (span.lower, span.upper) == ({1: b""}, {1: b"k9"})
    empty = _span([field], facts[1:2] * 2)
    assert (empty.lower, empty.upper) == ({1: b""}, {1: b""})


@pytest.mark.parametrize("coerce", [{"use_deprecated_int96_timestamps": True}, {"unit": "ms"}])
def test_a_file_with_timestamps_of_another_kind_is_found_out(tmp_path, coerce):
    schema = Schema(NestedField(1, "c", TimestamptzType()))
    arrow = schema_to_pyarrow(schema)
    path = f"{tmp_path}/one.parquet"
    rows = pa.table(
        [pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))], arrow
    )
    options = dict(coerce)
    if unit := options.pop("unit", None):
        options["coerce_timestamps"] = unit
    pq.write_table(rows, path, store_schema=False, **options)
    footer = pq.ParquetFile(path).metadata
    layout = build_layout(schema, PartitionSpec(), {}, {}, str(tmp_path))
    assert "column c is " in facts_of(layout, path, 1, footer).problem


def test_a_file_with_columns_of_another_type_is_found_out(tmp_path):
    path = f"{tmp_path}/one.parquet"
    pq.write_table(pa.table([pa.array([1])], schema_to_pyarrow(one(LongType()))), path)
    layout = build_layout(one(StringType()), PartitionSpec(), {}, {}, str(tmp_path))
    assert "c is no string but long" in read_facts(layout, path).problem
