"""Writes of an audit that fail, are tried again or come from threads: each one once, all seen."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.spark.checks import Expression, InRange, RowCount
from tests.profile import counted
from tests.spark.test_audit import CHECKS, ORDERS, orders, refused, rows, run

RANGE = InRange(ORDERS, "net", min=0)


def tried_twice(spark):
    """A block that tries its write again, as jobs do."""

    def act(audit):
        try:
            audit.write(orders(spark), ORDERS)
        except LochanError:
            audit.write(orders(spark), ORDERS)

    return act


@pytest.mark.parametrize("job", ["d8", None])
@pytest.mark.parametrize(
    "place", ["history.log", "references.get", "contents.get_many"][: counted(1, 3)]
)
def test_a_write_whose_note_failed_is_not_made_twice_when_it_is_tried_again(
    spark, lake, monkeypatch, place, job
):
    group, _, name = place.partition(".")
    client_group, write = getattr(lake.client, group), lake.write
    method, failures = getattr(client_group, name), []

    def written(*given, **more):
        done = write(*given, **more)
        if not done.was_done_before:
            failures.append(Unavailable("not now"))
        return done

    def fails_once(*given, **more):
        if failures:
            raise failures.pop()
        return method(*given, **more)

    monkeypatch.setattr(lake, "write", written)
    monkeypatch.setattr(client_group, name, fails_once)
    block = run(lake.audited("main", checks=RANGE, job=job), tried_twice(spark))
    assert block.report.is_published
    assert rows(lake) == 10
    assert [one.was_done_before for one in block.report.tables] == [True]


def test_a_write_whose_outcome_was_unknown_is_found_when_it_is_tried_again(
    spark, lake, monkeypatch
):
    write, lost = lake.write, [Unknown("whether it was written is unknown; run it again")]

    def loses(*given, **more):
        done = write(*given, **more)
        if lost:
            raise lost.pop()
        return done

    monkeypatch.setattr(lake, "write", loses)
    block = run(lake.audited("main", checks=RANGE), tried_twice(spark))
    assert block.report.is_published
    assert [one.how for one in block.report.checks] == ["query"]
    assert rows(lake) == 10


def test_writes_from_several_threads_are_all_there(spark, lake, monkeypatch):
    write, second = lake.write, []

    def act(audit):
        def begins_another(*given, **more):
            if not second:
                second.append(pool.submit(audit.write, orders(spark), ORDERS))
            return write(*given, **more)

        monkeypatch.setattr(lake, "write", begins_another)
        with ThreadPoolExecutor(1) as pool:
            audit.write(orders(spark), ORDERS)
            second[0].result()

    checks = [*CHECKS, RowCount(ORDERS, max=20, name="not more")]
    block = run(lake.audited("main", checks=checks, job="d9"), act)
    assert [one.was_done_before for one in block.report.tables] == [False, False]
    assert rows(lake) == 20


def test_times_that_python_has_not_are_reported_as_rows_that_break_a_range(spark, lake):
    # Milliseconds that were taken for seconds.
    events = spark.range(2).select(
        "id", F.expr("timestamp_seconds(id * 1797465600000)").alias("at")
    )
    last = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    check = InRange("shop.events", "at", max=last)
    message = "1 of 2 rows break it; values from 1970-01-01 00:00:00 to .58929-"
    refused(
        lake.audited("main", checks=check),
        lambda audit: audit.write(events, "shop.events"),
        message,
    )
    lake.write(events, "shop.events", branch="main")

    def act(audit):
        lake.write(events.where("id = 0"), "shop.events", branch=audit.branch)
        audit.adopt()

    refused(lake.audited("main", checks=check), act, message.replace("1 of 2", "1 of 3"))


def test_an_expression_does_not_see_what_a_write_adds_for_itself(spark, lake):
    check = Expression(ORDERS, "partition IS NOT NULL")
    with (
        pytest.raises(Exception, match="partition"),
        lake.audited("main", checks=check) as audit,
    ):
        audit.write(orders(spark), ORDERS, partition_by=["bucket(2, id)"])
    assert audit.report.outcome == "failed"
