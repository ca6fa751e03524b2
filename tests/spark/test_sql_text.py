"""Conditions in SQL, read as far as files can be chosen by them; no session is needed for that."""

from __future__ import annotations

import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from lochan.spark.read.filters import Domain, Unread, can_match
from lochan.spark.read.sql_conditions import (
    Columns,
    mentioned,
    read_column_text,
    read_condition,
    whole_fields,
)

SCHEMA = Schema(
    iceberg.NestedField(1, "n", iceberg.LongType(), required=False),
    iceberg.NestedField(2, "s", iceberg.StringType(), required=False),
    iceberg.NestedField(3, "d", iceberg.DateType(), required=False),
    iceberg.NestedField(4, "ts", iceberg.TimestamptzType(), required=False),
    iceberg.NestedField(5, "g", iceberg.FloatType(), required=False),
    iceberg.NestedField(6, "a b", iceberg.LongType(), required=False),
    iceberg.NestedField(7, "N", iceberg.LongType(), required=False),
)


def columns(zone: str = "UTC", *, case_sensitive: bool = True) -> Columns:
    fields = whole_fields(SCHEMA)
    return Columns(fields, case_sensitive=case_sensitive, zone=lambda: zone)


def keeps(text: str, domain: Domain, zone: str = "UTC") -> bool:
    """Whether a file is kept whose columns are all of one domain."""
    return can_match(read_condition(text, columns(zone)), lambda _: domain)


@pytest.mark.parametrize(
    "text",
    [
        r"s = 'a\\b'",
        r"s = 'it\'s'",
        "s = 'it''s'",
        "s = 'a' 'b'",
        's = "a"',
        "s = r'a'",
        "n = 5 -- and nothing else",
        "n = /* six */ 5",
        "n = 5; drop table x",
        "n + 1 = 5",
        "-n = 5",
        "n = '5'",
        "n = s",
        "f(n) = 5",
        "n[0] = 5",
        "(n, s) in ((1, 'a'))",
        "s like 'a%' escape '/'",
        "s ilike 'a%'",
        "s rlike 'a'",
        "n = 5 = true",
        "d = '2026-1-1'",
        "d = '2026-02-30'",
        "d = '2026-01-01 00:00:00'",
        "ts = 'yesterday'",
        "unknown = 5",
        "n in (select 5)",
        "n in (1, '2')",
        "n in (1, 2.5e0)",
        "n.x = 5",
        "case when n = 1 then true end",
        "n between 1",
        "(n = 5",
        "n = 5)",
        "n = 5 or",
        "exists(s, x -> x = 5)",
        "n = 5 collate unicode",
        "n :: int = 5",
        "n = 5 as m",
    ],
)
def test_what_spark_may_read_otherwise_is_not_read(text):
    assert isinstance(read_condition(text, columns()), Unread)


def test_a_part_that_is_not_read_leaves_the_others_as_they_are():
    nine = Domain(9, 9, may_be_null=False, may_be_nan=False)
    assert not keeps("n = 5 and f(s)", nine)
    assert keeps("n = 5 or f(s)", nine)
    assert not keeps("not (n = 9 or f(s))", nine)
    assert not keeps("not f(s) and (n between 1 and 8 or n in (10, 11))", nine)
    assert keeps("case when n = 1 and n = 2 then true else false end and n = 9", nine)


def test_patterns_choose_by_what_stands_before_the_first_wildcard():
    text = Domain("abc", "abd", may_be_null=False, may_be_nan=False)
    for pattern, is_kept in {
        "a_c%": True,
        "a%": True,
        "abc": True,
        "b%": False,
        "b_": False,
        "abe": False,
        "%": True,
        "_": True,
    }.items():
        assert keeps(f"s like '{pattern}'", text) == is_kept, pattern
        assert keeps(f"s not like '{pattern}'", text), pattern


def test_times_without_a_zone_are_those_of_the_session():
    midnight = 20_454 * 86_400_000_000
    hour = 3_600_000_000
    at = Domain(midnight, midnight, may_be_null=False, may_be_nan=False)
    later = Domain(midnight + 5 * hour, midnight + 6 * hour, may_be_null=False, may_be_nan=False)
    for text in (
        "ts = '2026-01-01'",
        "ts = TIMESTAMP '2026-01-01 00:00:00'",
        "ts = DATE '2026-01-01'",
    ):
        assert keeps(text, at, "UTC"), text
        assert not keeps(text, later, "UTC"), text
        # It may be this hour in a zone that is not looked up.
        assert keeps(text, later, "America/New_York"), text
    assert not keeps("ts = '2026-01-01T00:00:00Z'", later, "America/New_York")
    assert keeps("ts = '2026-01-01 00:00:00-05:30'", later, "Asia/Tokyo")


def test_names_are_found_as_spark_finds_them():
    assert isinstance(read_condition("n = 5", columns(case_sensitive=False)), Unread)
    assert not isinstance(read_condition("n = 5", columns()), Unread)
    assert not isinstance(read_condition("`a b` = 5", columns()), Unread)
    assert mentioned("`a b` = 5 or S = 'ts'", SCHEMA) == {"a b", "s", "ts"}
    # Here a name with a space is shown as it is.
    assert isinstance(read_column_text("=(n, 5)", columns(), is_quoted=False), Unread)
    assert not isinstance(read_column_text("=(`n`, 5)", columns(), is_quoted=True), Unread)


def test_brackets_without_end_are_not_read():
    for depth in (10, 1_000, 20_000):
        assert read_condition("(" * depth + "n = 5" + ")" * depth, columns()) is not None
        assert read_condition("not " * depth + "n = 5", columns()) is not None
    assert isinstance(read_condition("(" * 1_000 + "n = 5" + ")" * 1_000, columns()), Unread)
