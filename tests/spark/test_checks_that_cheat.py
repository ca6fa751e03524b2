"""Checks that would pass whatever the table holds: commands, comments, and escaped anchors."""

from __future__ import annotations

import re
from random import Random

import pytest
from pyspark.errors import AnalysisException

from lochan.base.errors import Invalid
from lochan.spark.audit.row_checks import check_pattern, measures
from lochan.spark.checks import Matches, Query, declare
from lochan.spark.sql_tokens import code_of
from tests.profile import counted

NOT_A_QUERY = [
    "SHOW TABLES LIKE '{a}' -- {a}",
    "SHOW COLUMNS IN {a}",
    "DROP VIEW {a}",
    "SET x = {a}",
    "INSERT INTO b SELECT * FROM {a}",
    "CALL f({a})",
    "EXPLAIN SELECT * FROM {a}",
    "DESCRIBE {a}",
    "CREATE TABLE b AS SELECT * FROM {a}",
    "CACHE TABLE {a}",
    "USE {a}",
    "/* SELECT */ DROP VIEW {a}",
    "-- SELECT\nDROP VIEW {a}",
    "-- SELECT \\\n 1\nDROP VIEW {a}",
    "BEGIN SELECT * FROM {a}; END",
    "EXECUTE IMMEDIATE 'SELECT 1' -- {a}",
    "{a}",
    "",
    "  ",
    "((DROP VIEW {a}))",
    "`SELECT` * FROM {a}",
    "'SELECT' FROM {a}",
]

SEVERAL = [
    "SELECT 1 FROM {a}; DROP VIEW {a}",
    "SELECT 1 FROM {a};; SELECT 2",
    "SELECT 1 FROM {a}) x; --",
    "SELECT * FROM {a}) UNION ALL (SELECT 1",
    "SELECT * FROM ({a}",
    "SELECT * FROM {a} WHERE x = ')' )",
]

UNNAMED = [
    "SELECT 1 WHERE false",
    "SELECT 1 WHERE false -- {a}",
    "SELECT 1 WHERE false /* {a} */",
    "SELECT 1 WHERE false /* /* */ {a} */",
    "SELECT '{a}' WHERE false",
    "SELECT 'it''s {a}' WHERE false",
    r"SELECT 'a\'{a}' WHERE false",
    r"SELECT r'\' WHERE false -- {a}'",
    'SELECT "{a}" WHERE false',
    "SELECT 1 `{a}` WHERE false",
    "SELECT $$ {a} $$ WHERE false",
    "SELECT /*+ BROADCAST({a}) */ 1 WHERE false",
    "SELECT 1 FROM {target:a}",
    "SELECT 1 WHERE false -- \\\n{a}",
]

UNCLOSED = ["SELECT 'x FROM {a}", "SELECT 1 FROM {a} /* /* */", 'SELECT "x FROM {a}', "SELECT `{a}"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (NOT_A_QUERY, "runs no command"),
        (SEVERAL, "second statement|do not match"),
        (UNNAMED, "outside of comments and quotes"),
        (UNCLOSED, "is not closed"),
    ],
)
def test_a_query_that_reads_no_table_is_refused_when_it_is_declared(texts, message):
    for text in texts:
        with pytest.raises(Invalid, match=rf"query 'q': .*(?:{message})"):
            Query(text, name="q")


def test_what_is_text_and_what_is_code_is_told_as_spark_tells_it():
    for sql, code in (
        ("a'b'c", "a\0\0\0c"),
        (r"'a\'b'c", "\0" * 6 + "c"),
        (r"r'a\'b'c'", "\0" * 5 + "b" + "\0" * 3),
        ("bar'x'", "bar\0\0\0"),
        ("a--b\nc", "a   \nc"),
        ("a/*b/*c*/d*/e", "a" + " " * 11 + "e"),
        ("`a``b`c", "\0" * 6 + "c"),
        ("$x$ ' $x$a", "\0" * 9 + "a"),
        ('"a""b"c', "\0" * 6 + "c"),
        ("a - b / c", "a - b / c"),
    ):
        assert code_of(sql) == code, sql


def test_tables_are_filled_in_where_they_are_read_and_nowhere_else():
    query = Query("SELECT '{a}', {a}.x FROM {a} -- {a}\nWHERE x > 1;", name="q")
    filled = query.filled({(False, "a"): "v"})
    assert filled == "SELECT * FROM (\nSELECT '{a}', v.x FROM v -- {a}\nWHERE x > 1\n)"


ESCAPES = [
    r"a)|(?:.*",
    r"a)|.*|(?:b",
    r")|(",
    r")|.*(?:",
    r"\Qa",
    r"a\E)|(?:.*",
    r"\E)|(?:\Q",
    "(?x)a #",
    "(?x)a)|(?:.* #",
    "a\\",
    r"a\c",
    "[a",
    "(a",
    "(?:a",
    "*",
    "a)",
    r"a\Q)|(?:.*",
    "(?x: a #",
    r"a|)\z|(?:",
    r"(?<=\A)x)|(?s:.*",
    r"\p",
    r"\x4",
]

WHOLE = {
    "a|ab": {"a", "ab"},
    "(?i)AB": {"ab"},
    "(?x) a b # both\n": {"ab"},
    r"\Qa)b\E": {"a)b"},
    r"a\)b": {"a)b"},
    r"a[)]b": {"a)b"},
    r"a[\])]b": {"a)b"},
    "(?s).*": {"", "a", "ab", "abc", "a)b", "a\n", "xabx"},
    "(?m)^a$": {"a"},
    "": {""},
    "a?": {"", "a"},
    r"(a)b|\1": {"ab"},
    r"a\\?b": {"ab"},
    "a$": {"a"},
}

VALUES = ["", "a", "ab", "abc", "a)b", "a\n", "xabx"]


def matched(spark, patterns) -> list[set[str]]:
    """Returns the values that keep each pattern, all of them in one job."""
    frame = spark.createDataFrame([(one,) for one in VALUES], "v string")
    checks = {n: Matches("t", "v", one) for n, one in enumerate(patterns)}
    named = frame.groupBy("v").agg(*measures(checks, frame)).collect()
    return [{row["v"] for row in named if row[f"bad_{n}"] == 0} for n in checks]


def test_a_pattern_that_leaves_its_anchors_is_refused(spark):
    for pattern in ESCAPES:
        with pytest.raises(Invalid, match="is no pattern by itself"):
            check_pattern(spark, Matches("t", "v", pattern))


def test_a_pattern_matches_whole_values_whatever_is_in_it(spark):
    assert dict(zip(WHOLE, matched(spark, WHOLE), strict=True)) == WHOLE


PIECES = ["a", "b", ".", "*", "?", "|", "(", "(", ")", ")", "(?:", r"\(", r"\)", "[ab]", "[)]"]


def test_patterns_made_by_chance_mean_what_a_full_match_means(spark):
    chance = Random(7)
    taken, refused = {}, 0
    for _ in range(counted(40, 600)):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 7)))
        try:
            compiled = re.compile(pattern, re.DOTALL)
        except re.error:
            compiled = None
        try:
            check_pattern(spark, Matches("t", "v", f"(?s){pattern}"))
        except Invalid:
            refused += 1
            continue
        if compiled is not None:
            taken[f"(?s){pattern}"] = {one for one in VALUES if compiled.fullmatch(one)}
        else:
            # Java takes some repetitions that Python does not, but no other parentheses.
            plain = re.sub(r"\\[()]|\[\)\]", "", pattern)
            assert plain.count("(") == plain.count(")"), pattern
    assert dict(zip(taken, matched(spark, taken), strict=True)) == taken
    assert taken
    assert refused


def test_a_pattern_is_refused_before_anything_is_made(lake):
    before = [one.name for one in lake.client.references.iterate()]
    check = Matches("shop.orders", "id", ESCAPES[0])
    assert declare([check]).checks == (check,)
    with pytest.raises(Invalid, match="no pattern by itself"), lake.audited(checks=check):
        pytest.fail("it was entered")
    assert [one.name for one in lake.client.references.iterate()] == before


def test_what_would_not_be_recognised_as_a_command_is_not_run_by_spark_either(spark):
    """In parentheses Spark takes a table or a query, so no command of a check is ever run."""
    spark.range(1).createOrReplaceTempView("kept")
    for text in ("DROP VIEW kept", "SHOW TABLES", "SET a.b = 1", "CACHE TABLE kept"):
        with pytest.raises(AnalysisException):
            spark.sql(f"SELECT * FROM (\n{text}\n)")
    assert spark.conf.get("a.b", None) is None
    assert spark.catalog.dropTempView("kept")
