"""Declaring checks, in Python and in a file: what is misspelt is refused, never left out."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import get_args

import msgspec
import pytest

from lochan.base.errors import AuditFailed, Invalid, NotFound
from lochan.base.limits.audits import (
    AUDIT_CHECKS_MAX,
    AUDIT_JOB_CHARACTERS_MAX,
    CHECK_FILE_BYTES_MAX,
    FRESH_AHEAD_S_MAX,
    FRESH_DATE_AHEAD_S_MAX,
)
from lochan.base.limits.spark_writes import SPARK_JOB_CHARACTERS_MAX
from lochan.spark import checks
from lochan.spark.audit.check_files import load_checks, parse_checks, read_checks
from lochan.spark.audit.verdicts import Ledger, Result, Status, build_verdict, complaints
from lochan.spark.checks import FROM_FILES, Custom, NotNull, Query, RowCount, Unchecked, declare
from tests.architecture.tree import ROOT

EVERY_KIND = """
[[check]]
kind = "not_null"
table = "shop.orders"
columns = ["id", "customer"]

[[check]]
kind = "in_range"
table = "shop.orders"
column = "day"
min = 2026-01-01

[[check]]
kind = "matches"
table = "shop.customers"
column = "mail"
pattern = "[^@]+@[^@]+"

[[check]]
kind = "in_set"
table = "shop.orders"
column = "state"
values = ["open", "paid"]

[[check]]
kind = "expression"
table = "shop.orders"
sql = "net <= gross"

[[check]]
kind = "row_count"
table = "shop.orders"
min = 1

[[check]]
kind = "table_rows"
table = "shop.orders"
percent_of_target = 99.5

[[check]]
kind = "schema"
table = "shop.orders"
columns = { id = "bigint", state = "string" }
exact = false

[[check]]
kind = "unique"
table = "shop.orders"
columns = ["id"]

[[check]]
kind = "fresh"
table = "shop.orders"
column = "changed_at"
age_s_max = 86400

[[check]]
kind = "refers_to"
table = "shop.orders"
columns = ["customer"]
other = "shop.customers"
other_columns = ["id"]

[[check]]
kind = "query"
name = "no order twice as dear as before"
sql = "SELECT * FROM {shop.orders} n JOIN {target:shop.orders} o USING (id) WHERE n.net > 2 * o.net"

[[check]]
kind = "unchecked"
table = "shop.log"
why = "only for people"
"""


def test_a_file_may_hold_every_kind_but_functions():
    found = parse_checks(EVERY_KIND.encode(), "checks.toml")
    assert [one.kind for one in found] == list(FROM_FILES)
    made = {
        one
        for name, one in vars(checks).items()
        if isinstance(one, type) and issubclass(one, checks.Check) and not name.startswith("_")
    }
    assert set(FROM_FILES.values()) == made - {checks.Check, Custom}
    assert found[1] == checks.InRange("shop.orders", "day", min=dt.date(2026, 1, 1))
    assert found[10] == checks.RefersTo("shop.orders", ("customer",), "shop.customers", ("id",))


def test_every_check_has_a_name_of_its_own_and_the_tables_it_is_about():
    declared = declare(parse_checks(EVERY_KIND.encode(), "checks.toml"))
    assert len(set(declared.labels())) == len(declared.checks) == len(FROM_FILES) - 1
    assert declared.covered() == {"shop.orders", "shop.customers", "shop.log"}
    assert "not_null shop.orders(id, customer)" in declared.labels()
    assert len(declared.of_rows("shop.orders")) == 5
    assert declared.of_rows("shop.log") == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "checks.toml: declares no check"),
        ("check = 5", "checks.toml: declares no check"),
        ("check = [5]", "checks.toml: check 1: is no table"),
        ("nonsense", "checks.toml: no TOML"),
        ("checks = 1", "checks.toml: unknown field 'checks'"),
        ("[[check]]\ntable='a'", "checks.toml: check 1: field 'kind' is missing"),
        (
            "[[check]]\nkind='uniqe'",
            "checks.toml: check 1: unknown kind 'uniqe'; there are not_null,",
        ),
        ("[[check]]\nkind=['unique']", "checks.toml: check 1: unknown kind ['unique']"),
        ("[[check]]\nkind='custom'", "checks.toml: check 1: unknown kind 'custom'"),
        (
            "[[check]]\nkind='unique'\ntable='a'\ncolums=['b']\ncolumns=['b']",
            "checks.toml: check 1 (unique): unknown field 'colums'",
        ),
        ("[[check]]\nkind='unique'\ntable='a'", "check 1 (unique): field 'columns' is missing"),
        (
            "[[check]]\nkind='unique'\ntable=7\ncolumns=['b']",
            "check 1 (unique): field 'table': Expected `str`, got `int`",
        ),
        ("[[check]]\nkind='unique'\ntable='a'\ncolumns=[]", "columns must name at least one"),
        ("[[check]]\nkind='in_range'\ntable='a'\ncolumn='b'", "at least one of min, max"),
        ("[[check]]\nkind='in_range'\ntable='a'\ncolumn='b'\nmax=nan", "max must be a number"),
        ("[[check]]\nkind='fresh'\ntable='a'\ncolumn='b'\nage_s_max=nan", "must be a number"),
        (
            "[[check]]\nkind='query'\nname='q'\nsql='SELECT 1 FROM {a}'\nat_most=nan",
            "at_most must be a number",
        ),
        ("[[check]]\nkind='query'\nsql='SELECT 1 FROM {a}'", "a query needs a name"),
        ("[[check]]\nkind='query'\nname='q'\nsql='SELECT 1 FROM a'", "name the tables as {shop.o"),
        ("[[check]]\nkind='unchecked'\ntable='a'\nwhy=' '", "state why"),
        (
            "[[check]]\nkind='refers_to'\ntable='a'\ncolumns=[]\nother='c'\nother_columns=['d']",
            "columns must name at least one",
        ),
        (
            "[[check]]\nkind='refers_to'\ntable=''\ncolumns=['']\nother=''\nother_columns=['','']",
            "as many as columns",
        ),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_by_a_sentence(text, sentence):
    with pytest.raises(Invalid, match=re.escape(sentence)):
        parse_checks(text.encode(), "checks.toml")


def test_a_missing_broken_or_huge_file_is_refused_by_its_name(tmp_path):
    with pytest.raises(NotFound, match=r"nowhere\.toml"):
        load_checks(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_bytes(b"\xff")
    with pytest.raises(Invalid, match=r"broken\.toml: no TOML"):
        load_checks(str(tmp_path / "broken.toml"))
    (tmp_path / "huge.toml").write_bytes(b"#" * (CHECK_FILE_BYTES_MAX + 1))
    with pytest.raises(Invalid, match=r"huge\.toml: a file of checks has at most"):
        read_checks(tmp_path / "huge.toml")
    with pytest.raises(Invalid, match="cannot be read"):
        read_checks(tmp_path)


def test_files_and_values_are_declared_together(tmp_path):
    (tmp_path / "checks.toml").write_text(EVERY_KIND)
    declared = load_checks([tmp_path / "checks.toml", RowCount("shop.returns", max=5)])
    assert len(declared.checks) == len(FROM_FILES)
    assert len(load_checks(NotNull("a", ("b",))).checks) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [NotNull("a", ("b",)), NotNull("a", ("b",))],
        [NotNull("a", ("b",)), Unchecked("a", why="no need")],
        [NotNull(7, ("b",))],  # type: ignore[arg-type]
        [RowCount("a", min="1")],  # type: ignore[arg-type]
        ["not a check", 5],
        [checks.Check(name="nothing")],
        [RowCount("a", min=1, name=str(number)) for number in range(AUDIT_CHECKS_MAX + 1)],
    ],
    ids=["twice", "both ways", "table", "number", "text", "root", "many"],
)
def test_checks_that_are_not_well_made_are_refused(wrong):
    with pytest.raises(Invalid):
        declare(wrong)


def test_columns_given_as_one_text_are_not_taken_for_letters():
    with pytest.raises(Invalid, match="as a list"):
        NotNull("a", "id")
    assert NotNull("a", ["id"]) == NotNull("a", ("id",))
    assert declare([NotNull("a", ["id"])]).checks == (NotNull("a", ("id",)),)


NAN = float("nan")


@pytest.mark.parametrize(
    "make",
    [
        lambda: checks.InSet("a", "b", ["x", None]),
        lambda: checks.InRange("a", "b", min=NAN),
        lambda: checks.InRange("a", "b", min=0, max=NAN),
        lambda: checks.InRange("a", "b", max=Decimal("sNaN")),
        lambda: checks.TableRows("a", percent_of_target=NAN),
        lambda: checks.Fresh("a", "b", age_s_max=NAN),
        lambda: Query("SELECT 1 FROM {a}", equals=NAN, name="q"),
    ],
)
def test_what_every_value_would_pass_or_none_is_refused(make):
    with pytest.raises(Invalid, match=r"NULL|NaN"):
        make()


def test_a_function_needs_a_name_and_must_be_callable():
    with pytest.raises(Invalid, match="needs a name"):
        Custom("a", lambda frame: True)
    with pytest.raises(Invalid, match="cannot be called"):
        Custom("a", 5, name="five")  # type: ignore[arg-type]


def test_tables_of_a_query_are_found_and_quantifiers_of_patterns_are_not_tables():
    query = Query(
        "SELECT 1 FROM {shop.a} JOIN {target:shop.b} WHERE c RLIKE '[0-9]{3,5}'", name="q"
    )
    assert query.tables() == ("shop.a",)
    filled = query.filled({(False, "shop.a"): "v1", (True, "shop.b"): "v2"})
    inside = "SELECT 1 FROM v1 JOIN v2 WHERE c RLIKE '[0-9]{3,5}'"
    assert filled == f"SELECT * FROM (\n{inside}\n)"


COMMIT, OTHER = "c" * 64, "d" * 64
DECLARED = declare([NotNull("a", ("b",)), RowCount("a", min=1)])


def results(*statuses, commit=COMMIT):
    return [
        Result(check=one.label(), kind=one.kind, tables=one.tables(), status=status, commit=commit)
        for one, status in zip(DECLARED.checks, statuses, strict=False)
    ]


def test_a_verdict_needs_a_passed_result_for_every_check_on_the_commit():
    verdict = build_verdict(COMMIT, OTHER, DECLARED, results("passed", "passed"))
    assert (verdict.commit, verdict.target, len(verdict.results)) == (COMMIT, OTHER, 2)
    for status in set(get_args(Status)) - {"passed"}:
        with pytest.raises(AuditFailed, match="1 of 2 checks did not pass, nothing is published"):
            build_verdict(COMMIT, OTHER, DECLARED, results("passed", status))
    with pytest.raises(AuditFailed, match="has no result"):
        build_verdict(COMMIT, OTHER, DECLARED, results("passed"))
    with pytest.raises(AuditFailed, match="on another commit"):
        build_verdict(COMMIT, OTHER, DECLARED, results("passed", "passed", commit=OTHER))
    with pytest.raises(AuditFailed, match="two results"):
        build_verdict(COMMIT, OTHER, DECLARED, results("passed", "passed") + results("passed"))


def test_every_complaint_is_told_not_only_the_first():
    assert len(complaints(COMMIT, DECLARED, results("failed", "error"))) == 2
    assert len(complaints(COMMIT, DECLARED, [])) == 2


def test_a_result_of_a_check_that_nobody_declared_is_a_complaint():
    stranger = msgspec.structs.replace(results("passed")[0], check="stranger")
    assert complaints(COMMIT, DECLARED, [*results("passed", "passed"), stranger]) != []


def test_no_other_status_than_passed_lets_anything_through():
    for status in ("", "skipped", "PASSED", "pass", None):
        assert complaints(COMMIT, DECLARED, results("passed", status)) != []


def test_a_table_without_a_check_cannot_be_written():
    ledger = Ledger(declare([NotNull("a", ("b",)), Unchecked("log", why="for people")]), COMMIT)
    ledger.check_table("a")
    ledger.check_table("log")
    with pytest.raises(AuditFailed, match="c has no check"):
        ledger.check_table("c")


def test_results_are_plain_values():
    decoded = msgspec.json.decode(msgspec.json.encode(results("passed")[0]))
    assert decoded["status"] == "passed"


def test_limits_that_the_docs_tell_are_those_of_the_code():
    prose = " ".join((ROOT / "docs/spark.md").read_text("utf-8").split())
    assert f"at most {AUDIT_JOB_CHARACTERS_MAX} characters and no `#`" in prose
    assert f"{FRESH_AHEAD_S_MAX:,} s ahead of the driver's clock" in prose
    assert f"a date {FRESH_DATE_AHEAD_S_MAX:,} s" in prose
    # A number of a write is short enough for what a job may have.
    assert AUDIT_JOB_CHARACTERS_MAX + len("#999999") < SPARK_JOB_CHARACTERS_MAX
