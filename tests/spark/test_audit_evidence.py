"""What was watched during a write speaks for exactly the rows that are published, or not at all."""

from __future__ import annotations

import pytest

from lochan.base.errors import AuditFailed, Unavailable
from lochan.model.commits import Put
from lochan.spark.checks import Custom, InRange, NotNull, RowCount
from tests.spark.test_audit import (
    CHECKS,
    ORDERS,
    PUBLISH_MODES,
    head,
    orders,
    poor,
    refused,
    rows,
    run,
)

RANGE = InRange(ORDERS, "net", min=0)


def test_rows_that_were_adopted_are_looked_at_although_a_good_write_follows(spark, lake):
    before = head(lake)

    def act(audit):
        lake.write(poor(spark), ORDERS, branch=audit.branch)
        audit.adopt()
        audit.write(orders(spark), ORDERS)

    block = refused(lake.audited("main", checks=RANGE), act, "2 of 20 rows break it")
    assert [one.how for one in block.report.checks] == ["query"]
    assert head(lake) == before


def test_rows_that_were_adopted_between_two_writes_are_looked_at(spark, lake):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.write(poor(spark), ORDERS, branch=audit.branch)
        audit.adopt()
        audit.write(orders(spark), ORDERS)

    refused(lake.audited("main", checks=RANGE), act, "2 of 30 rows break it")
    assert head(lake) == before


def test_a_count_of_rows_does_not_pass_where_others_were_adopted(spark, lake):
    def act(audit):
        lake.write(orders(spark), ORDERS, branch=audit.branch)
        audit.adopt()
        audit.write(orders(spark), ORDERS)

    refused(lake.audited("main", checks=RowCount(ORDERS, max=10)), act, "did not run")


def test_what_is_adopted_in_another_table_takes_nothing_from_what_was_watched(spark, lake):
    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.write(orders(spark), "shop.lines", branch=audit.branch)
        audit.adopt()

    checks = [*CHECKS, InRange("shop.lines", "net", min=0)]
    block = run(lake.audited("main", checks=checks), act)
    assert [one.how for one in block.report.checks] == ["observed"] * 3 + ["query"]


@pytest.fixture
def poison(spark, lake):
    """A table on main, and what puts a state of it that was never checked on a branch."""
    lake.write(orders(spark), ORDERS, branch="main")
    lake.client.references.create("side", "main")
    lake.write(poor(spark), ORDERS, branch="side")
    content, _ = lake.client.contents.get("side", ("shop", "orders"))
    put = Put(key=("shop", "orders"), content=content)
    return lambda branch: lake.client.commits.commit(branch, "not ours", [put])


def test_a_commit_that_takes_the_place_of_ours_is_not_taken_for_ours(
    spark, lake, poison, monkeypatch
):
    before, write = head(lake), lake.write

    def replaced(frame, table, **more):
        written = write(frame, table, **more)
        lake.client.references.assign(more["branch"], before)
        poison(more["branch"])
        return written

    monkeypatch.setattr(lake, "write", replaced)
    refused(
        lake.audited("main", checks=RANGE),
        lambda audit: audit.write(orders(spark), ORDERS),
        "changed from outside",
    )
    assert head(lake) == before


def test_a_commit_that_somebody_slips_under_an_empty_write_is_not_taken_for_ours(
    spark, lake, poison, monkeypatch
):
    before, write = head(lake), lake.write

    def slips(frame, table, **more):
        poison(more["branch"])
        return write(frame, table, **more)

    monkeypatch.setattr(lake, "write", slips)
    refused(
        lake.audited("main", checks=RANGE),
        lambda audit: audit.write(orders(spark).where("id < 0"), ORDERS),
        "changed from outside",
    )
    assert head(lake) == before


def test_a_write_that_the_block_tries_again_keeps_its_name(spark, lake, monkeypatch):
    write, failures = lake.write, [Unavailable("not now")]

    def fails_once(*given, **more):
        if failures:
            raise failures.pop()
        return write(*given, **more)

    def act(audit):
        try:
            audit.write(orders(spark), ORDERS)
        except Unavailable:
            audit.write(orders(spark), ORDERS)

    monkeypatch.setattr(lake, "write", fails_once)
    assert run(lake.audited("main", checks=CHECKS, job="d7"), act).report.is_published
    again = run(lake.audited("main", checks=CHECKS, job="d7"), act)
    assert again.report.outcome == "unchanged"
    assert again.report.commits.audited == ""
    assert rows(lake) == 10


@pytest.mark.parametrize("publish", PUBLISH_MODES)
def test_a_check_that_writes_through_its_audit_does_not_get_that_published_or_lost(
    spark, lake, publish
):
    blocks = []

    def meddle(frame):
        with pytest.raises(AuditFailed, match="has ended"):
            blocks[0].write(poor(spark), ORDERS)
        return True

    check = Custom(ORDERS, meddle, name="meddles")
    blocks.append(lake.audited("main", checks=[RANGE, check], publish=publish))
    run(blocks[0], lambda audit: audit.write(orders(spark), ORDERS))
    assert rows(lake) == 10


def test_what_files_tell_is_not_counted_again_by_spark(spark, lake, monkeypatch):
    whole = RowCount(ORDERS, min=10, max=10)
    checks = [NotNull(ORDERS, ("id", "net")), InRange(ORDERS, "id", min=0, max=9), whole]
    write, measured = lake.write, []

    def keeps(frame, table, **more):
        written = write(frame, table, **more)
        measured.append(sorted(written.measured))
        return written

    monkeypatch.setattr(lake, "write", keeps)
    block = run(
        lake.audited("main", checks=checks), lambda audit: audit.write(orders(spark), ORDERS)
    )
    assert [(one.status, one.how) for one in block.report.checks] == [("passed", "observed")] * 3
    assert [one.observed for one in block.report.checks] == [
        "0 NULL in 10 rows",
        "10 rows; values from 0 to 9",
        "10 rows",
    ]
    run(lake.audited("main", checks=RANGE), lambda audit: audit.write(orders(spark), ORDERS))
    assert measured == [[], ["bad_0", "max_0", "min_0"]]


def test_rows_that_files_tell_against_are_counted_in_the_table(spark, lake):
    check = InRange(ORDERS, "id", max=7)
    block = refused(
        lake.audited("main", checks=check),
        lambda audit: audit.write(orders(spark), ORDERS),
        "2 of 10 rows break it",
    )
    assert [one.how for one in block.report.checks] == ["query"]


def test_rows_that_broke_a_check_and_were_replaced_are_told_by_their_files(spark, lake):
    def act(audit):
        audit.write(orders(spark), ORDERS)
        audit.write(orders(spark).where("id < 5"), ORDERS, mode="overwrite")

    check = InRange(ORDERS, "id", max=7)
    refused(lake.audited("main", checks=check), act, "15 rows; values from 0 to 9")
