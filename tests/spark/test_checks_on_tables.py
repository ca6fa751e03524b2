"""Every kind of check on real tables: what passes, what fails, and what cannot run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from threading import Event
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from lochan.base.errors import AuditFailed
from lochan.base.limits.audits import AUDIT_CHECKS_TOGETHER_MAX
from lochan.spark.audit.check_runner import run_checks
from lochan.spark.audit.state_checks import CheckContext
from lochan.spark.audit.verdicts import build_verdict
from lochan.spark.checks import (
    FROM_FILES,
    Custom,
    Expression,
    Fresh,
    InRange,
    InSet,
    Matches,
    NotNull,
    Query,
    RefersTo,
    RowCount,
    Schema,
    TableRows,
    Unique,
    declare,
)

DAY = dt.date(2026, 10, 15)
NOW = dt.datetime.now(dt.UTC)

ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "customer": pa.array(["ada", "bob", "ada", None], pa.string()),
        "net": pa.array([1.5, 20.0, None, 7.25], pa.float64()),
        "state": pa.array(["open", "paid", "paid", "open"], pa.string()),
        "day": pa.array([DAY] * 4, pa.date32()),
        "seen": pa.array([NOW, NOW - dt.timedelta(hours=1), None, None], pa.timestamp("us", "UTC")),
    }
)
CUSTOMERS = pa.table({"name": pa.array(["ada", "bob", "bob"], pa.string())})
ODD = pa.table(
    {
        "net": pa.array([float("nan"), 1.0], pa.float64()),
        "key": pa.array([None, None], pa.int64()),
        "text": pa.array(["abc\n", "abc"], pa.string()),
        "times": pa.array([1, 2], pa.int64()),
        "rows": pa.array([1, 1], pa.int64()),
    }
)


def clock(hours: float) -> dt.datetime:
    return NOW + dt.timedelta(hours=hours)


TIMES = pa.table(
    {
        "future": pa.array([clock(1)], pa.timestamp("us", "UTC")),
        "soon": pa.array([NOW + dt.timedelta(seconds=60)], pa.timestamp("us", "UTC")),
        "plain": pa.array([clock(-1).replace(tzinfo=None)], pa.timestamp("us")),
        "plain_future": pa.array([clock(1).replace(tzinfo=None)], pa.timestamp("us")),
        "today": pa.array([NOW.date()], pa.date32()),
        "tomorrow": pa.array([clock(24).date()], pa.date32()),
        "someday": pa.array([clock(72).date()], pa.date32()),
        "millis": pa.array([int(NOW.timestamp() * 1e3)], pa.int64()),
    }
)

TABLES = {"customers": CUSTOMERS, "orders": ORDERS, "odd": ODD, "times": TIMES}

TYPES = {
    "id": "long",
    "customer": "string",
    "net": "Double",
    "state": "string",
    "day": "date",
    "seen": "timestamp",
}


@pytest.fixture(scope="module")
def tables(spark, new_repository, tmp_path_factory):
    """A lake with tables on two commits: the target has fewer orders."""
    from lochan.spark.lake import Lake

    place = tmp_path_factory.mktemp("warehouse")
    with Lake(spark, new_repository(), warehouse=str(place)) as lake:
        lake.catalog.create_namespace("shop")
        for name, rows in TABLES.items():
            lake.catalog.create_table(f"shop.{name}", schema=rows.schema).append(rows)
        target = lake.client.references.get("main").hash
        lake.catalog.load_table("shop.orders").append(ORDERS.slice(0, 1))
        yield lake, lake.client.references.get("main").hash, target


def judged(tables, *checks):
    lake, commit, target = tables
    # Two checks of one kind on one column need a name each.
    named = [
        msgspec.structs.replace(one, name=f"{number} {one.name}")
        for number, one in enumerate(checks)
    ]
    return run_checks(CheckContext(lake, commit, target), declare(named), {})


def judged_plainly(tables):
    lake, commit, target = tables
    return run_checks(CheckContext(lake, commit, target), declare([BROKEN[0][0]]), {})


PASSING = [
    NotNull("shop.orders", ("id", "state")),
    InRange("shop.orders", "net", min=1, max=20.0),
    InRange("shop.orders", "day", min=dt.date(2026, 1, 1)),
    Matches("shop.orders", "customer", "[a-z]{3}"),
    InSet("shop.orders", "state", ("open", "paid")),
    Expression("shop.orders", "id > 0 AND day < current_date() + 10000"),
    TableRows("shop.orders", min=5, max=5, percent_of_target=125),
    TableRows("shop.customers", percent_of_target=100),
    Schema("shop.orders", TYPES),
    Schema("shop.orders", {"id": "bigint"}, exact=False),
    Unique("shop.odd", ("text",)),
    Unique("shop.odd", ("times",)),
    InRange("shop.odd", "rows", min=1, max=1),
    Fresh("shop.orders", "seen", age_s_max=3_600),
    Fresh("shop.times", "soon", age_s_max=3_600),
    Fresh("shop.times", "plain", age_s_max=7_200),
    Fresh("shop.times", "today", age_s_max=3 * 86_400),
    Fresh("shop.times", "tomorrow", age_s_max=86_400),
    RefersTo("shop.orders", ("customer",), "shop.customers", ("name",)),
    Query("SELECT * FROM {shop.orders} WHERE id < 0", name="no rows"),
    Query("SELECT count(*) FROM {shop.orders}", equals=5, name="value"),
    Query("SELECT sum(net) FROM {shop.orders}", at_least=30, at_most=30.5, name="between"),
    Query(
        "SELECT n.rows - o.rows FROM (SELECT count(*) rows FROM {shop.orders}) n, "
        "(SELECT count(*) rows FROM {target:shop.orders}) o",
        equals=1,
        name="one more than the target",
    ),
    Query("SELECT * FROM {shop.orders} WHERE customer NOT RLIKE '^[a-z]{3}$'", name="a quantifier"),
    Query(
        "-- '\n(SELECT '{' FROM /* ' */ {shop.orders} WHERE id < 0 AND '--' <> \";\"); -- the end",
        name="quotes, comments and a semicolon",
    ),
    Query("TABLE {shop.orders} LIMIT 0", name="a table"),
    Query("FROM {shop.orders} SELECT id WHERE id < 0", name="the other way round"),
    Custom("shop.orders", lambda frame: frame.count() == 5, name="mine"),
    Custom("shop.orders", lambda frame: np.bool_(frame.count() == 5), name="of numpy"),
    Custom("shop.orders", lambda frame: (np.True_, "all"), name="of numpy, and what I saw"),
    Custom("shop.orders", lambda frame: (True, frame.count()), name="mine, and what I saw"),
]

FAILING = [
    (NotNull("shop.orders", ("id", "customer")), "1 of 5 rows break it"),
    (InRange("shop.orders", "net", min=2), "2 of 5 rows break it; values from 1.5 to 20"),
    (InRange("shop.orders", "net", max=19), "1 of 5 rows"),
    (InRange("shop.odd", "net", min=0), "1 of 2 rows"),
    (Matches("shop.orders", "customer", "[a-z]"), "4 of 5 rows"),
    (Matches("shop.odd", "text", "abc"), "1 of 2 rows"),
    (InSet("shop.orders", "state", ("open",)), "2 of 5 rows"),
    (Expression("shop.orders", "net > 0"), "1 of 5 rows"),
    (TableRows("shop.orders", min=6), "5 rows"),
    (TableRows("shop.orders", max=4), "5 rows"),
    (TableRows("shop.orders", percent_of_target=126), "5 rows"),
    (Schema("shop.orders", {"id": "int", "gone": "string"}, exact=False), "id is bigint; gone is"),
    (Schema("shop.customers", {"other": "string"}), "other is missing; name is surplus"),
    (Unique("shop.orders", ("id",)), "1 keys occur more than once, 1 rows too many"),
    (Unique("shop.odd", ("key",)), "1 keys"),
    (Fresh("shop.orders", "seen", age_s_max=-1), "s old"),
    (Fresh("shop.times", "today", age_s_max=-1e12), "s old"),
    (Fresh("shop.times", "plain", age_s_max=1_800), "s old"),
    (Fresh("shop.times", "future", age_s_max=3_600), "s in the future"),
    (Fresh("shop.times", "plain_future", age_s_max=3_600), "s in the future"),
    (Fresh("shop.times", "someday", age_s_max=3_600), "s in the future"),
    (Unique("shop.odd", ("rows",)), "1 keys occur more than once"),
    (RefersTo("shop.orders", ("state",), "shop.customers", ("name",)), "5 rows refer to nothing"),
    (Query("SELECT * FROM {shop.orders} WHERE id = 1", name="rows"), "2 rows"),
    (Query("SELECT count(*) FROM {shop.orders}", at_most=4, name="value"), "5"),
    (Query("SELECT CAST(NULL AS INT) FROM {shop.orders} LIMIT 1", equals=1, name="null"), "NULL"),
    (Custom("shop.orders", lambda frame: False, name="mine"), "false"),
    (Custom("shop.orders", lambda frame: np.False_, name="of numpy"), "false"),
    (Custom("shop.orders", lambda frame: (False, "too few"), name="message"), "too few"),
]


def leave(frame):
    raise SystemExit(0)


def returns(value: Any) -> Callable[[Any], Any]:
    return lambda frame: value


def broken(frame):
    raise AssertionError("nobody expected this")


BROKEN = [
    (NotNull("shop.orders", ("gone",)), "gone"),
    (NotNull("shop.nowhere", ("id",)), "nowhere"),
    (Matches("shop.orders", "customer", "("), "("),
    (Expression("shop.orders", "this is no SQL"), "PARSE_SYNTAX_ERROR"),
    (Fresh("shop.orders", "customer", age_s_max=1), "not string"),
    (Fresh("shop.times", "millis", age_s_max=1e9), "not bigint"),
    (Unique("shop.orders", ("gone",)), "gone"),
    (TableRows("shop.nowhere", min=0), "nowhere"),
    (RefersTo("shop.orders", ("id",), "shop.nowhere"), "nowhere"),
    (Query("SELECT 1 FROM {shop.nowhere}", name="no table"), "nowhere"),
    (Query("SELECT id FROM FROM {shop.orders} x y z", name="no SQL"), "PARSE_SYNTAX_ERROR"),
    (Query("SELECT 1 AS {shop.orders} WHERE false", name="an alias"), "does not read it"),
    (
        Query("SELECT {shop.orders}.a FROM (SELECT 1 a) {shop.orders} WHERE a > 1", name="another"),
        "does not read it",
    ),
    (
        Query(
            "WITH {shop.orders} AS (SELECT 1 WHERE false) SELECT * FROM {shop.orders}",
            name="hidden by another",
        ),
        "does not read it",
    ),
    (
        Query("SELECT * FROM {shop.orders} WHERE id < 0 AND 1 IN (SHOW TABLES)", name="inside"),
        "PARSE_SYNTAX_ERROR",
    ),
    (
        Query("WITH x AS (SELECT * FROM {shop.orders}) INSERT INTO y SELECT * FROM x", name="with"),
        "PARSE_SYNTAX_ERROR",
    ),
    (Query("FROM {shop.orders} INSERT INTO y SELECT id", name="from"), "PARSE_SYNTAX_ERROR"),
    (Query("SELECT id FROM {shop.orders}", equals=1, name="many"), "one row of one column"),
    (Query("SELECT 1 FROM {shop.orders} LIMIT 0", equals=1, name="none"), "one row of one column"),
    (Query("SELECT 'x' FROM {shop.odd} LIMIT 1", at_least=1, name="types"), "TypeError"),
    (Custom("shop.orders", broken, name="raises"), "AssertionError: nobody expected this"),
    (Custom("shop.orders", leave, name="leaves"), "SystemExit"),
    (Custom("shop.orders", returns(None), name="forgot to return"), "NoneType"),
    (Custom("shop.orders", returns(1), name="truthy"), "int"),
    (Custom("shop.orders", returns((1, 2, 3)), name="odd"), "tuple"),
    (Custom("shop.orders", returns(np.int64(1)), name="a number of numpy"), "int64"),
    (Custom("shop.orders", returns(np.array(True)), name="an array"), "ndarray"),
]


QUERIES = [one for one in (*PASSING, *(check for check, _ in BROKEN)) if one.kind == "query"]


def test_checks_that_are_kept_pass(tables):
    found = judged(tables, *PASSING)
    assert [one.kind for one in found] == [one.kind for one in PASSING]
    assert [one for one in found if one.status != "passed"] == []
    assert all(one.commit == tables[1] and one.expected for one in found)


def test_checks_that_are_broken_fail_and_say_what_was_seen(tables):
    found = judged(tables, *(check for check, _ in FAILING))
    for result, (check, seen) in zip(found, FAILING, strict=True):
        assert (result.kind, result.status) == (check.kind, "failed"), result
        assert seen in result.observed, result


def test_checks_that_cannot_run_do_not_pass_and_say_why(tables):
    found = judged(tables, *(check for check, _ in BROKEN))
    for result, (check, message) in zip(found, BROKEN, strict=True):
        assert (result.kind, result.status) == (check.kind, "error"), result
        assert message in result.detail, result
    with pytest.raises(AuditFailed, match="could not run"):
        build_verdict(tables[1], tables[2], declare([BROKEN[0][0]]), judged_plainly(tables))


def test_rows_of_a_run_that_wrote_nothing_are_missing_not_counted(tables):
    (result,) = judged(tables, RowCount("shop.orders", min=0))
    assert result.status == "missing"


def test_every_kind_is_shown_to_pass_to_fail_and_to_break(tables):
    kinds = set(FROM_FILES) - {"unchecked"} | {"custom"}
    assert {one.kind for one in PASSING} == kinds - {"row_count"}
    assert {one.kind for one, _ in FAILING} == kinds - {"row_count"}
    # Ranges and sets meet a missing column or table as the others do.
    assert {one.kind for one, _ in BROKEN} >= kinds - {"row_count", "in_range", "in_set", "schema"}


def test_views_of_queries_are_gone_afterwards(tables):
    twice = "SELECT 1 FROM {shop.orders} a JOIN {shop.orders} b USING (id) WHERE a.id < 0"
    judged(tables, *QUERIES, Query(twice, name="a table that is named twice"))
    left = [one.name for one in tables[0].spark.catalog.listTables()]
    assert [name for name in left if name.startswith("lochan_audit_")] == []


def test_a_query_that_passes_writes_nothing_to_standard_error(tables, capfd):
    judged(tables, Query("SELECT * FROM {shop.orders} WHERE id < 0", name="no rows"))
    assert "lochan_audit" not in capfd.readouterr().err


def test_a_table_that_the_target_has_not_is_compared_with_no_rows(spark, tables):
    lake, commit, _ = tables
    checks = (
        TableRows("shop.orders", percent_of_target=100),
        Query("SELECT * FROM {shop.orders} n JOIN {target:shop.orders} o USING (id)", name="new"),
    )
    empty = lake.client.config().empty_hash
    found = run_checks(CheckContext(lake, commit, empty), declare(checks), {})
    assert [one.status for one in found] == ["passed", "passed"], found


def test_a_value_that_cannot_be_compared_with_a_bound_does_not_pass(tables):
    spark = tables[0].spark
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        (found,) = judged(tables, InRange("shop.orders", "customer", min=0))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert found.status == "failed"
    assert found.observed.startswith("4 of 5 rows break it")


def test_times_without_a_zone_are_utc_in_every_session(tables):
    spark = tables[0].spark
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = judged(
            tables,
            Fresh("shop.times", "plain", age_s_max=7_200),
            Fresh("shop.times", "plain", age_s_max=1_800),
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [one.status for one in found] == ["passed", "failed"]


def test_who_interrupts_the_checks_waits_for_none_and_no_other_begins(tables):
    lake, commit, target = tables
    begun: list[int] = []
    release = Event()

    def waits(frame):
        begun.append(1)
        release.wait(30)
        return True

    def interrupted(result):
        raise KeyboardInterrupt

    checks = [Custom("shop.orders", lambda frame: True, name="first")]
    checks += [Custom("shop.orders", waits, name=f"check {one}") for one in range(40)]
    try:
        with pytest.raises(KeyboardInterrupt):
            run_checks(CheckContext(lake, commit, target), declare(checks), {}, interrupted)
        assert len(begun) <= AUDIT_CHECKS_TOGETHER_MAX
    finally:
        release.set()
