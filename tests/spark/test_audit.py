"""Write, audit, publish on real tables: what passes is published, whatever else happens is not."""

from __future__ import annotations

import json
import time

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import (
    AlreadyExists,
    AuditFailed,
    Invalid,
    KeysConflict,
    NotFound,
    ReferenceNotFound,
)
from lochan.spark.audit.publisher import PUBLISH_MODES
from lochan.spark.checks import (
    Custom,
    InRange,
    NotNull,
    Query,
    RowCount,
    TableRows,
    Unchecked,
    Unique,
)
from tests.profile import counted

ORDERS = "shop.orders"
CHECKS = (NotNull(ORDERS, ("id",)), InRange(ORDERS, "net", min=0), RowCount(ORDERS, min=1))


def orders(spark, first: int = 0, count: int = 10):
    return spark.range(first, first + count).select("id", (F.col("id") * 1.5).alias("net"))


def poor(spark):
    return orders(spark).select("id", (F.col("net") - 3).alias("net"))


def head(lake, name="main"):
    return lake.client.references.get(name).hash


def branches(lake):
    return sorted(one.name for one in lake.client.references.iterate())


def rows(lake, table=ORDERS, ref="main"):
    return lake.read(table, ref=ref).count()


def run(audit, act):
    """Runs a block and returns its audit."""
    with audit:
        act(audit)
    return audit


def refused(audit, act, match=None, error=AuditFailed):
    """Runs a block that must end with an error, and returns its audit."""
    with pytest.raises(error, match=match):
        run(audit, act)
    return audit


def nothing(audit):
    """A block that does nothing."""


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_what_passes_is_published_as_it_was_checked(spark, lake, publish, tmp_path):
    paths = [tmp_path / "audit.html", tmp_path / "audit.json"]
    before = head(lake)
    checks = [*CHECKS, Unique(ORDERS, ("id",)), TableRows(ORDERS, min=10)]
    with lake.audited("main", checks=checks, publish=publish, report=paths) as audit:
        assert json.loads(paths[1].read_text())["outcome"] == "running"
        written = audit.write(orders(spark), ORDERS)
        assert written.rows == audit.read(ORDERS).count() == 10
        assert head(lake) == before
    report = audit.report
    assert (report.outcome, report.attempts) == ("published", 1)
    assert report.commits.published == report.commits.audited == head(lake)
    assert (report.commits.base, report.commits.target) == (before, before)
    assert {one.commit for one in report.checks} == {head(lake)}
    assert [one.how for one in report.checks] == ["observed"] * 3 + ["query"] * 2
    assert [one.status for one in report.checks] == ["passed"] * 5
    assert [(one.table, one.rows) for one in report.tables] == [(ORDERS, 10)]
    assert {(one.key, one.change) for one in report.changes} == {
        (("shop",), "added"),
        (("shop", "orders"), "added"),
    }
    assert [one.name for one in report.steps] == ["branch", "write", "check", "tidy"]
    assert rows(lake) == 10
    assert branches(lake) == ["main"]
    assert json.loads(paths[1].read_text())["outcome"] == "published"
    assert "What was published" in paths[0].read_text()


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_what_does_not_pass_stays_on_its_branch_and_the_report_says_why(
    spark, lake, publish, tmp_path
):
    before = head(lake)
    audit = lake.audited("main", checks=CHECKS, publish=publish, report=tmp_path / "a.json")
    with pytest.raises(AuditFailed, match=r"1 of 3 checks did not pass.*in_range") as failed:
        run(audit, lambda audit: audit.write(poor(spark), ORDERS))
    assert head(lake) == before
    assert audit.branch in branches(lake)
    assert rows(lake, ref=audit.branch) == 10
    report = json.loads((tmp_path / "a.json").read_text())
    assert (report["outcome"], report["commits"]["published"]) == ("refused", "")
    assert failed.value.message in report["reason"]
    assert [one["status"] for one in report["checks"]] == ["passed", "failed", "passed"]
    assert "2 of 10 rows break it; values from -3 to 10.5" in report["checks"][1]["observed"]
    assert [one["status"] for one in report["steps"]] == ["done", "done", "failed"]


def test_an_error_in_the_block_publishes_nothing_and_is_told(spark, lake, tmp_path):
    before = head(lake)
    audit = refused(
        lake.audited("main", checks=CHECKS, report=tmp_path / "a.json"),
        lambda audit: audit.write(orders(spark), ORDERS).rows / 0,
        error=ZeroDivisionError,
    )
    assert head(lake) == before
    assert audit.branch in branches(lake)
    report = json.loads((tmp_path / "a.json").read_text())
    assert (report["outcome"], report["checks"]) == ("failed", [])
    assert report["reason"].startswith("ZeroDivisionError")


def test_a_table_without_a_check_is_refused_unless_that_is_said(spark, lake):
    before = head(lake)
    refused(
        lake.audited("main", checks=CHECKS),
        lambda audit: audit.write(orders(spark), "shop.log"),
        r"shop\.log has no check",
    )
    assert head(lake) == before
    waiver = Unchecked("shop.log", why="only for people")
    with lake.audited("main", checks=[*CHECKS, waiver]) as audit:
        audit.write(orders(spark), ORDERS)
        audit.write(orders(spark), "shop.log")
    assert rows(lake, "shop.log") == 10
    assert [one.why for one in audit.report.unchecked] == ["only for people"]


def test_several_writes_to_one_table_are_judged_together(spark, lake):
    checks = [NotNull(ORDERS, ("id",)), RowCount(ORDERS, min=20, max=20)]
    with lake.audited("main", checks=checks) as audit:
        audit.write(orders(spark), ORDERS)
        audit.write(orders(spark, 10), ORDERS)
    assert audit.report.checks[1].observed == "20 rows"
    assert {one.how for one in audit.report.checks} == {"observed"}
    assert rows(lake) == 20


@pytest.mark.parametrize(
    "mode", ["append", "overwrite", "overwrite_partitions", "merge"][:: counted(3, 1)]
)
def test_rows_are_watched_in_every_mode_of_writing(spark, lake, mode):
    lake.write(orders(spark), ORDERS, branch="main")
    keys = {"keys": ["id"]} if mode == "merge" else {}
    audit = refused(
        lake.audited("main", checks=CHECKS),
        lambda audit: audit.write(poor(spark), ORDERS, mode=mode, **keys),
        "in_range",
    )
    assert {one.how for one in audit.report.checks} == {"observed"}
    with lake.audited("main", checks=CHECKS) as audit:
        audit.write(orders(spark, 5, 3), ORDERS, mode=mode, **keys)
    assert {one.how for one in audit.report.checks} == {"observed"}
    expected = {"append": 13, "overwrite": 3, "overwrite_partitions": 3, "merge": 10}
    assert rows(lake) == expected[mode]


def test_rows_that_are_written_in_partitions_are_watched_all_the_same(spark, lake):
    with lake.audited("main", checks=CHECKS) as audit:
        audit.write(orders(spark), ORDERS, partition_by=["bucket(4, id)"])
    assert audit.report.checks[1].observed.startswith("0 of 10 rows break it")


def test_an_empty_write_is_counted_as_such(spark, lake):
    audit = refused(
        lake.audited("main", checks=CHECKS),
        lambda audit: audit.write(orders(spark).where("id < 0"), ORDERS),
        r"row_count shop\.orders: 0 rows",
    )
    assert [one.status for one in audit.report.checks] == ["passed", "passed", "failed"]


def test_a_block_that_writes_nothing_does_not_pass_a_count_of_rows(lake):
    refused(lake.audited("main", checks=[RowCount(ORDERS, min=1)]), nothing, "did not run")


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_a_job_that_was_published_does_nothing_when_it_runs_again(spark, lake, publish):
    def run(count):
        with lake.audited("main", checks=CHECKS, job="daily-7", publish=publish) as audit:
            audit.write(orders(spark, 0, count), ORDERS)
            audit.write(orders(spark, 100, count), ORDERS)
        return audit.report

    assert run(10).outcome == "published"
    after = head(lake)
    again = run(10)
    assert (again.outcome, head(lake)) == ("unchanged", after)
    assert [one.was_done_before for one in again.tables] == [True, True]
    assert rows(lake) == 20
    assert branches(lake) == ["main"]
    (top,) = lake.client.history.log("main", 1).items
    assert ("lochan.job", ("daily-7",)) in top.meta.properties or publish == "fast-forward"


def test_a_job_that_failed_its_audit_runs_again_from_the_start(spark, lake):
    audit = refused(
        lake.audited("main", checks=CHECKS, job="daily-8"),
        lambda audit: audit.write(poor(spark), ORDERS),
    )
    with lake.audited("main", checks=CHECKS, job="daily-8") as again:
        assert again.write(orders(spark), ORDERS).was_done_before is False
    assert again.report.outcome == "published"
    assert rows(lake) == 10
    # What was refused stays: the branch, and the commit that was checked.
    left = [one.partition("-publish-")[0] for one in branches(lake)]
    assert left == [audit.branch, audit.branch, "main"]


def test_a_job_that_is_only_partly_there_is_checked_in_whole(spark, lake):
    lake.write(poor(spark), ORDERS, branch="main", job="daily-9")
    checks = [InRange(ORDERS, "net", min=0), Unchecked("shop.lines", why="for this test")]

    def act(audit):
        assert audit.write(orders(spark), ORDERS).was_done_before
        audit.write(orders(spark), "shop.lines")

    audit = lake.audited("main", checks=checks, job="daily-9")
    refused(audit, act, "2 of 10 rows break it")
    assert [one.how for one in audit.report.checks] == ["query"]


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_when_the_target_has_moved_all_is_checked_again_on_both_changes(spark, lake, publish):
    lake.write(orders(spark), "shop.customers", branch="main")
    seen = []

    def both(frame):
        seen.append(frame.count())
        if len(seen) == 1:
            lake.write(orders(spark, 10), "shop.customers", branch="main")
        return True

    checks = [
        *CHECKS,
        Custom("shop.orders", both, name="moves the target"),
        Query(
            "SELECT count(*) FROM {target:shop.customers} CROSS JOIN (SELECT 1 FROM {shop.orders} "
            "LIMIT 1)",
            at_least=10,
            name="customers",
        ),
    ]
    with lake.audited("main", checks=checks, publish=publish) as audit:
        audit.write(orders(spark), ORDERS)
    report = audit.report
    assert (report.outcome, report.attempts) == ("published", 2)
    assert {one.commit for one in report.checks} == {head(lake)}
    # The table is the very one that was watched, so what was seen then still holds.
    assert [one.how for one in report.checks][:3] == ["observed"] * 3
    assert report.checks[-1].observed == "20"
    assert (rows(lake), rows(lake, "shop.customers")) == (10, 20)


def test_when_the_target_changed_the_same_table_it_keeps_its_own(spark, lake):
    lake.write(orders(spark), ORDERS, branch="main")

    def act(audit):
        audit.write(orders(spark, 10), ORDERS)
        lake.write(orders(spark, 20, 5), ORDERS, branch="main")

    audit = refused(lake.audited("main", checks=CHECKS), act, "run the job again", KeysConflict)
    assert audit.report.outcome == "conflict"
    assert rows(lake) == 15


def test_the_branch_ends_with_its_time(spark, lake):
    begun = time.time_ns() // 1_000
    refused(
        lake.audited("main", checks=CHECKS, ttl_s=3_600, branch="audit-mine"),
        lambda audit: audit.write(poor(spark), ORDERS),
    )
    expires = lake.client.references.get("audit-mine").expires_us
    assert begun + 3_600_000_000 <= expires <= time.time_ns() // 1_000 + 3_600_000_000
    again = lake.audited("main", checks=CHECKS, branch="audit-mine")
    refused(again, nothing, error=AlreadyExists)


def test_what_is_wrong_from_the_start_is_refused_before_anything_is_made(spark, lake, tmp_path):
    for wrong, error in (
        ({"publish": "force"}, Invalid),
        ({"ttl_s": 0}, Invalid),
        ({"report": tmp_path / "a.pdf"}, Invalid),
        ({"checks": "no-such-file"}, NotFound),
    ):
        with pytest.raises(error):
            lake.audited("main", **({"checks": CHECKS} | wrong))
    lost = lake.audited("nowhere", checks=CHECKS, report=tmp_path / "a.json")
    refused(lost, nothing, error=ReferenceNotFound)
    assert json.loads((tmp_path / "a.json").read_text())["outcome"] == "failed"
    assert branches(lake) == ["main"]
    with lake.audited("main", checks=Unchecked("x", why="for this test")) as audit:
        for more in ({"branch": "main"}, {"job": "other"}, {"measures": None}, {"modus": "x"}):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                audit.write(orders(spark), "x", **more)


def test_checks_may_come_from_a_file(spark, lake, tmp_path):
    path = tmp_path / "checks.toml"
    path.write_text(
        '[[check]]\nkind = "in_range"\ntable = "shop.orders"\ncolumn = "net"\nmin = 0\n'
        '[[check]]\nkind = "unique"\ntable = "shop.orders"\ncolumns = ["id"]\n'
    )
    refused(
        lake.audited("main", checks=path),
        lambda audit: audit.write(poor(spark), ORDERS),
        "in_range",
    )
    with lake.audited("main", checks=str(path)) as audit:
        audit.write(orders(spark), ORDERS)
    assert audit.report.outcome == "published"


def test_leaving_checks_again_what_was_looked_at_early(spark, lake):
    """A table may have been fresh enough hours ago."""
    calls = []

    def look(frame):
        calls.append(1)
        return True

    check = Custom(ORDERS, look, name="counts its calls")
    for publish in PUBLISH_MODES:
        calls.clear()
        with lake.audited("main", checks=check, publish=publish) as audit:
            audit.write(orders(spark), ORDERS)
            assert audit.check().commit
            assert audit.verdict is not None
        assert len(calls) == 2
        assert head(lake) == audit.report.commits.published


def test_progress_is_told_step_by_step(spark, lake):
    steps = []
    with lake.audited("main", checks=CHECKS, progress=lambda *one: steps.append(one)) as audit:
        audit.write(orders(spark), ORDERS)
    assert [name for name, _ in steps] == ["branch", "write", "check", *["checked"] * 3, "tidy"]
    assert ("checked", "row_count shop.orders") in steps


def test_what_was_put_on_the_branch_by_other_means_is_adopted_and_checked(spark, lake):
    def putting(frame, table):
        def act(audit):
            lake.write(frame, table, branch=audit.branch)
            assert audit.adopt() == head(lake, audit.branch)

        return act

    check = CHECKS[1]
    refused(
        lake.audited("main", checks=check),
        putting(poor(spark), ORDERS),
        "2 of 10 rows break it",
    )
    audit = run(lake.audited("main", checks=check), putting(orders(spark), ORDERS))
    assert [one.how for one in audit.report.checks] == ["query"]
    refused(
        lake.audited("main", checks=check),
        putting(orders(spark), "shop.hidden"),
        r"shop\.hidden was changed and has no check",
    )
