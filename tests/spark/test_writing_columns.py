"""Facts of columns by their files: there are none unless every file has them."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, NestedField, StringType

from lochan.spark.audit.row_checks import WriteFacts, find_by_files, is_answered_by_files
from lochan.spark.checks import InRange, InSet, NotNull, RowCount
from lochan.spark.schemas import to_spark
from lochan.spark.write.bounds import FileFacts
from lochan.spark.write.statistics import ColumnFacts, column_facts, join_facts

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "net", DoubleType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "tags", ListType(5, StringType())),
    NestedField(6, "small", IntegerType()),
)


def number(value, size=8):
    return value.to_bytes(size, "little", signed=True)


def file(rows=4, nulls=None, **ends):
    nulls = {1: 0, 2: 0, 3: 1, 5: 0, 6: 0} if nulls is None else nulls
    low = {1: number(ends.get("low", -3)), 6: number(1, 4)}
    high = {1: number(ends.get("high", 9)), 6: number(2, 4)}
    return FileFacts(path="f", size=1, rows=rows, null_counts=nulls, lower=low, upper=high)


def test_nulls_and_ends_of_all_files_are_joined():
    found = column_facts(SCHEMA, [file(), file(low=-8, high=2), FileFacts(path="empty", size=1)])
    assert found == {
        "id": ColumnFacts(0, -8, 9),
        "net": ColumnFacts(0),
        "name": ColumnFacts(2),
        "small": ColumnFacts(0, 1, 2),
    }


def test_of_a_column_that_one_file_does_not_count_nothing_is_said():
    found = column_facts(SCHEMA, [file(), file(nulls={1: 0, 6: 0})])
    assert set(found) == {"id", "small"}


def test_of_numbers_without_ends_nothing_is_said_unless_there_is_none():
    silent = FileFacts(path="f", size=1, rows=4, null_counts={1: 3, 6: 4})
    assert column_facts(SCHEMA, [silent]) == {"small": ColumnFacts(4)}
    assert column_facts(SCHEMA, [file(), silent])["small"] == ColumnFacts(4, 1, 2)


def test_without_any_file_there_is_no_value_and_none_is_missing():
    assert column_facts(SCHEMA, [])["id"] == ColumnFacts(0)
    assert join_facts([]) == ColumnFacts(0)


@pytest.mark.parametrize(
    ("check", "is_told"),
    [
        (RowCount("t", min=1), True),
        (NotNull("t", ("id", "name")), True),
        (NotNull("t", ("id", "tags")), False),
        (NotNull("t", ("ID",)), False),
        (NotNull("t", ("other.id",)), False),
        (InRange("t", "id", min=0), True),
        (InRange("t", "id", max=1.5), True),
        (InRange("t", "id", min="a"), False),
        (InRange("t", "net", min=0), False),
        (InRange("t", "name", min="a"), False),
        (InSet("t", "id", (1,)), False),
    ],
)
def test_only_what_files_count_exactly_is_left_to_them(check, is_told):
    assert is_answered_by_files(check, to_spark(SCHEMA)) is is_told


@pytest.mark.parametrize(
    ("check", "passed", "observed"),
    [
        (NotNull("t", ("id",)), True, "0 NULL in 8 rows"),
        (NotNull("t", ("id", "name")), False, "2 NULL in 8 rows"),
        (InRange("t", "id", min=-8, max=9), True, "8 rows; values from -8 to 9"),
        (InRange("t", "id", min=-7), False, "8 rows; values from -8 to 9"),
        (InRange("t", "id", max=8.5), False, "8 rows; values from -8 to 9"),
        (InRange("t", "gone", min=0), True, "no value in 8 rows"),
        (RowCount("t", max=7), False, "8 rows"),
    ],
)
def test_what_the_files_of_several_writes_say(check, passed, observed):
    name, gone = ColumnFacts(1), ColumnFacts(4)
    first = WriteFacts(4, {"id": ColumnFacts(0, -3, 9), "name": name, "gone": gone}, {})
    second = WriteFacts(4, {"id": ColumnFacts(0, -8, 2), "name": name, "gone": gone}, {})
    finding = find_by_files(check, [first, second])
    assert finding is not None
    assert (finding.passed, finding.observed) == (passed, observed)


def test_what_one_write_does_not_tell_all_do_not():
    writes = [WriteFacts(4, {"id": ColumnFacts(0, 1, 2)}, {}), WriteFacts(4, {}, {})]
    assert find_by_files(NotNull("t", ("id",)), writes) is None
    assert find_by_files(InRange("t", "id", min=0), writes) is None
    decimals = [WriteFacts(4, {"net": ColumnFacts(1)}, {})]
    assert find_by_files(InRange("t", "net", min=0), decimals) is None
