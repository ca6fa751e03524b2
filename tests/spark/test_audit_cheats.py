"""Ways to publish what was not checked, each tried on real tables, each refused.

The same list without Spark, against forged verdicts and lost replies, is in
`test_audit_publishing`.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import AuditFailed, Invalid
from lochan.spark.audit.audit import Audit
from lochan.spark.audit.check_runner import run_checks
from lochan.spark.audit.publisher import PUBLISH_MODES
from lochan.spark.audit.verdicts import Verdict
from lochan.spark.checks import Custom, InRange, NotNull, Query, RowCount, Schema, Unique
from tests.spark.test_audit import CHECKS, ORDERS, head, orders, poor, refused, run

GOOD = Custom(ORDERS, lambda frame: True, name="always content")


def broken(frame):
    raise ZeroDivisionError


def forgetful(frame) -> Any:
    frame.count()


@pytest.fixture
def audited(lake):
    return lambda *checks: lake.audited("main", checks=checks or CHECKS)


@pytest.fixture(params=PUBLISH_MODES)
def either(request, lake):
    """For cheats that concern publishing itself: both ways of doing it."""
    return lambda *checks: lake.audited("main", checks=checks or CHECKS, publish=request.param)


def untouched(lake, before):
    assert head(lake) == before
    assert list(lake.client.contents.iterate("main")) == []


def test_a_check_that_is_skipped(spark, lake, audited, monkeypatch):
    before = head(lake)
    monkeypatch.setattr(
        "lochan.spark.audit.audit.run_checks", lambda *given: run_checks(*given)[1:]
    )
    refused(audited(), lambda audit: audit.write(orders(spark), ORDERS), "has no result")
    untouched(lake, before)


def test_a_check_that_raises(spark, lake, audited):
    before = head(lake)
    checks = (GOOD, Custom(ORDERS, broken, name="broken"))
    message = r"1 of 2 checks did not pass.*broken: could not run \(ZeroDivisionError"
    refused(audited(*checks), lambda audit: audit.write(orders(spark), ORDERS), message)
    untouched(lake, before)


def test_a_check_that_forgets_to_answer(spark, lake, audited):
    before = head(lake)
    check = Custom(ORDERS, forgetful, name="forgetful")
    refused(audited(check), lambda audit: audit.write(orders(spark), ORDERS), "could not run")
    untouched(lake, before)


def test_a_check_on_a_table_or_a_column_that_is_not_there(spark, lake, audited):
    before = head(lake)
    for check in (Unique("shop.nowhere", ("id",)), Query("SELECT 1 FROM {shop.no}", name="q")):
        block = audited(GOOD, check)
        refused(block, lambda audit: audit.write(orders(spark), ORDERS), "could not run")
        untouched(lake, before)


def test_a_check_that_cannot_be_watched_because_its_column_is_missing(spark, lake, audited):
    before = head(lake)
    block = audited(NotNull(ORDERS, ("gone",)))
    with pytest.raises(
        Invalid, match=r"lacks what its checks look at \(not_null shop\.orders.*gone"
    ):
        run(block, lambda audit: audit.write(orders(spark), ORDERS))
    assert block.report.outcome == "failed"
    untouched(lake, before)


def test_checks_on_another_table_than_the_one_that_is_written(spark, lake, audited):
    before = head(lake)
    block = audited(NotNull("shop.other", ("id",)))
    refused(block, lambda audit: audit.write(orders(spark), ORDERS), "has no check")
    untouched(lake, before)


def test_a_write_after_the_checks(spark, lake, either):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        audit.check()
        assert audit.verdict is not None
        audit.write(poor(spark), ORDERS)
        assert audit.verdict is None

    refused(either(), act, "in_range")
    untouched(lake, before)


def test_a_good_write_after_a_bad_one(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(poor(spark), ORDERS)
        audit.write(orders(spark), ORDERS, mode="overwrite")

    refused(audited(), act, "2 of 20 rows break it")
    untouched(lake, before)


def test_a_check_whose_failure_is_swallowed_in_the_block(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(poor(spark), ORDERS)
        with pytest.raises(AuditFailed):
            audit.check()

    refused(audited(), act, "in_range")
    untouched(lake, before)


def test_a_forged_verdict(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(poor(spark), ORDERS)
        commit = head(lake, audit.branch)
        with pytest.raises(AuditFailed):
            audit._publisher.ledger.judged(Verdict(commit, before, ()), commit)

    refused(audited(), act, "in_range")
    untouched(lake, before)


def test_a_branch_that_is_changed_from_outside_before_the_checks(spark, lake, either):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.write(poor(spark), ORDERS, branch=audit.branch)

    refused(either(), act, "changed from outside")
    untouched(lake, before)


def test_a_branch_that_is_changed_from_outside_under_a_write(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.write(poor(spark), "shop.hidden", branch=audit.branch)
        audit.write(orders(spark, 10), ORDERS)

    refused(audited(), act, "changed from outside")
    untouched(lake, before)


def test_a_check_that_changes_the_branch_itself(spark, lake, either):
    before = head(lake)
    blocks: list[Audit] = []

    def meddle(frame):
        lake.write(poor(spark), ORDERS, branch=blocks[0].branch)
        return True

    block = either(Custom(ORDERS, meddle, name="meddles"))
    blocks.append(block)
    refused(block, lambda audit: audit.write(orders(spark), ORDERS), "changed from outside")
    untouched(lake, before)


def test_a_branch_that_is_deleted_and_made_again(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.client.references.delete(audit.branch)
        lake.client.references.create(audit.branch)
        lake.write(poor(spark), ORDERS, branch=audit.branch)

    refused(audited(), act, "changed from outside")
    untouched(lake, before)


def test_a_target_that_moves_between_check_and_publish_is_checked_as_it_is_then(
    spark, lake, either
):
    """The first look passes; what the target has got meanwhile makes the second one fail."""
    lake.write(orders(spark), "shop.customers", branch="main")
    calls = []

    def moves(frame):
        calls.append(1)
        if len(calls) == 1:
            lake.write(orders(spark, 10), "shop.customers", branch="main")
        return True

    ten = Query("SELECT count(*) FROM {shop.customers}", equals=10, name="ten customers")
    block = either(*CHECKS, Custom(ORDERS, moves, name="moves"), ten)
    refused(block, lambda audit: audit.write(orders(spark), ORDERS), "ten customers: 20")
    assert len(calls) == 2
    assert [one.key for one in lake.client.contents.iterate("main")] == [
        ("shop",),
        ("shop", "customers"),
    ]


def test_a_look_at_some_rows_before_the_write_is_not_what_is_counted(
    spark, lake, audited, monkeypatch
):
    before = head(lake)
    write = lake.write

    def looks_first(frame, table, **more):
        frame.limit(2).collect()
        return write(frame, table, **more)

    monkeypatch.setattr(lake, "write", looks_first)
    late = orders(spark).select("id", (7 - F.col("id")).cast("double").alias("net"))
    block = audited(InRange(ORDERS, "net", min=0))
    refused(block, lambda audit: audit.write(late, ORDERS), "2 of 10 rows break it")
    assert [one.how for one in block.report.checks] == ["observed"]
    block = audited(RowCount(ORDERS, max=5), InRange(ORDERS, "id", min=0))
    refused(block, lambda audit: audit.write(late, ORDERS), "10 rows, expected at most 5")
    untouched(lake, before)


def test_a_table_that_was_watched_and_then_replaced(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        lake.write(poor(spark), ORDERS, branch=audit.branch, mode="overwrite")
        audit.adopt()

    block = refused(audited(InRange(ORDERS, "net", min=0)), act, "2 of 10 rows break it")
    assert [one.how for one in block.report.checks] == ["query"]
    untouched(lake, before)


def test_an_audit_that_is_over(spark, lake, audited):
    block = run(audited(), lambda audit: audit.write(orders(spark), ORDERS))
    after = head(lake)
    for act in (
        lambda: block.write(poor(spark), ORDERS),
        block.check,
        block.__enter__,
    ):
        with pytest.raises(AuditFailed):
            act()
    assert head(lake) == after


def test_an_audit_that_never_began(spark, lake, audited):
    for act in (
        lambda: audited().write(orders(spark), ORDERS),
        audited().check,
        audited().adopt,
        lambda: audited().__exit__(None, None, None),
    ):
        with pytest.raises(AuditFailed, match="is a block"):
            act()


def test_no_checks_at_all(spark, lake, audited):
    before = head(lake)
    block = lake.audited("main", checks=())
    refused(block, lambda audit: audit.write(orders(spark), ORDERS), "has no check")
    refused(lake.audited("main"), lambda audit: audit.write(orders(spark), ORDERS), "has no check")
    untouched(lake, before)


def test_an_error_that_comes_after_the_last_write(spark, lake, audited):
    before = head(lake)

    def act(audit):
        audit.write(orders(spark), ORDERS)
        audit.check()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(audited(), act)
    untouched(lake, before)


def test_a_schema_that_changed_meanwhile(spark, lake, audited):
    before = head(lake)
    check = Schema(ORDERS, {"id": "bigint", "net": "decimal(10,2)"})
    refused(audited(check), lambda audit: audit.write(orders(spark), ORDERS), "net is double")
    untouched(lake, before)


def test_these_refusals_are_not_because_everything_is_refused(spark, lake, either):
    before = head(lake)
    block = run(either(GOOD, *CHECKS), lambda audit: audit.write(orders(spark), ORDERS))
    assert head(lake) == block.report.commits.published != before
    assert block.report.outcome == "published"
