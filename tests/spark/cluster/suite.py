"""What must hold on every kind of session: functions of a lake that know nothing of its Spark.

They run on `local[2]` where the tests run, and in processes of their own on `local-cluster`,
through Connect and on a standalone master. Each has a branch and a table of its own, so that one
lake serves them all, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import AuditFailed, Conflict, ContentNotFound
from lochan.spark import checks
from lochan.spark.history.catch_up import catch_up
from lochan.spark.history.functions import register_functions
from lochan.spark.history.sink import append_to
from lochan.spark.lake import Lake
from tests.spark.row_values import rows

Rows = list[dict[str, Any]]
Promise = Callable[[Lake], None]


def fresh(lake: Lake) -> tuple[str, str]:
    """Makes a branch that no other test uses; returns it and the name of a table on it."""
    tag = uuid4().hex[:10]
    branch = f"branch-{tag}"
    lake.client.references.create(branch, "main")
    return branch, f"n_{tag}.orders"


def orders(lake: Lake, first: int, count: int, net: float = 1.5) -> DataFrame:
    """Returns orders in four parts."""
    return lake.spark.range(first, first + count, 1, 4).select(
        "id",
        F.concat(F.lit("r"), F.col("id") % 3).alias("region"),
        (F.col("id") * net).alias("net"),
        F.timestamp_micros(F.col("id") * 3_600_000_000).alias("ts"),
    )


def ids(found: Rows) -> list[int]:
    """Returns the ids of rows, each as often as it is there."""
    return sorted(row["id"] for row in found)


def on(lake: Lake, branch: str, table: str) -> Rows:
    """Returns a table by our reader, after a look that PyIceberg finds the same."""
    found = rows(lake.read(table, ref=branch))
    assert found == rows(lake.catalog.at(branch).load_table(table).scan())
    return found


def rows_are_written_and_read_by_branch(lake: Lake) -> None:
    branch, table = fresh(lake)
    first = lake.write(orders(lake, 0, 40), table, branch=branch, partition_by=["region"])
    assert (first.rows, first.was_done_before) == (40, False)
    lake.write(orders(lake, 40, 20), table, branch=branch)
    assert on(lake, branch, table) == rows(orders(lake, 0, 60))
    assert rows(lake.read(table, ref=first.commit)) == rows(orders(lake, 0, 40))
    few = lake.read(table, ref=branch, columns=["id"], where="id >= 55 and region = 'r1'")
    assert rows(few) == [{"id": 55}, {"id": 58}]
    with pytest.raises(ContentNotFound):
        lake.read(table, ref="main")


def a_merge_replaces_and_adds(lake: Lake) -> None:
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 30), table, branch=branch)
    lake.write(orders(lake, 20, 20, net=9.0), table, branch=branch, mode="merge", keys=["id"])
    expected = orders(lake, 0, 20).unionAll(orders(lake, 20, 20, net=9.0))
    assert on(lake, branch, table) == rows(expected)


def overwriting_replaces_partitions_or_everything(lake: Lake) -> None:
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 12), table, branch=branch, partition_by=["region"])
    one = orders(lake, 30, 9, net=2.0).where("region = 'r0'")
    lake.write(one, table, branch=branch, mode="overwrite_partitions")
    expected = orders(lake, 0, 12).where("region <> 'r0'").unionAll(one)
    assert on(lake, branch, table) == rows(expected)
    lake.write(orders(lake, 7, 2), table, branch=branch, mode="overwrite")
    assert ids(on(lake, branch, table)) == [7, 8]


def a_write_replaces_only_what_its_frame_has_read(lake: Lake) -> None:
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 6), table, branch=branch, partition_by=["region"])
    read = lake.read(table, ref=branch)
    view = f"view_{branch[-10:]}"
    read.createOrReplaceTempView(view)
    frames = (
        orders(lake, 0, 9).join(read.select("id"), "id", "left_anti"),
        lake.spark.sql(f"SELECT * FROM {view} WHERE id IN (SELECT max(id) FROM {view})"),
        read.where("id < 3").cache(),
    )
    other = lake.write(orders(lake, 6, 3), table, branch=branch)
    for frame in frames:
        with pytest.raises(Conflict, match=f"by commit {other.commit}"):
            lake.write(frame, table, branch=branch, mode="overwrite")
    frames[-1].unpersist()
    lake.write(lake.read(table, ref=branch).where("id > 3"), table, branch=branch, mode="overwrite")
    assert lake.delete(table, "id % 3 = 1", branch=branch).rows == 2
    assert lake.update(table, {"net": "net + id"}, "id >= 8", branch=branch).rows == 1
    assert {row["id"]: row["net"] for row in on(lake, branch, table)} == {5: 7.5, 6: 9.0, 8: 20.0}


def lists_and_maps_survive(lake: Lake) -> None:
    branch, table = fresh(lake)
    frame = orders(lake, 0, 20).select(
        "id",
        F.array(F.col("id"), F.col("id") + 1).alias("both"),
        F.create_map(F.col("region"), F.struct("net", "ts")).alias("by_region"),
    )
    lake.write(frame, table, branch=branch)
    # Spark shows a map as pairs, and so does PyIceberg.
    assert on(lake, branch, table) == rows(frame)


def several_tables_are_one_commit(lake: Lake) -> None:
    branch, table = fresh(lake)
    before = lake.client.references.get(branch).hash
    with lake.writing(branch=branch) as batch:
        batch.write(orders(lake, 0, 10), table)
        batch.write(orders(lake, 10, 5), f"{table}_late", partition_by=["bucket(4, id)"])
        assert lake.client.references.get(branch).hash == before
    (commit,) = {each.commit for each in batch.written}
    assert lake.client.references.get(branch).hash == commit
    assert ids(on(lake, branch, table)) == list(range(10))
    assert ids(on(lake, branch, f"{table}_late")) == list(range(10, 15))


def a_job_is_done_once(lake: Lake) -> None:
    branch, table = fresh(lake)
    job = f"job-{branch}"
    first = lake.write(orders(lake, 0, 10), table, branch=branch, job=job)
    again = lake.write(orders(lake, 0, 10), table, branch=branch, job=job)
    assert (first.was_done_before, again.was_done_before) == (False, True)
    assert again.snapshot_id == first.snapshot_id
    assert ids(on(lake, branch, table)) == list(range(10))


def history_is_read_as_frames(lake: Lake) -> None:
    branch, table = fresh(lake)
    base = lake.client.references.get(branch).hash
    commits = [
        lake.write(orders(lake, 0, 5), table, branch=branch).commit,
        lake.write(orders(lake, 5, 5), table, branch=branch).commit,
    ]
    heads = {row.name: row.commit for row in lake.refs(prefix=branch).collect()}
    assert heads == {branch: commits[1]}
    log = lake.log(branch, since=base, commits_per_partition=1).orderBy("seq").collect()
    assert [row.commit for row in log] == commits
    entries = lake.entries(branch).where(F.col("name") == table).collect()
    assert [row.type for row in entries] == ["ICEBERG_TABLE"]
    diff = {row.name: row.change for row in lake.diff(commits[0], branch).collect()}
    assert diff == {table: "changed"}
    changes = lake.changes(branch, since=base).where(F.col("name") == table).orderBy("seq")
    assert [row.commit for row in changes.collect()] == commits
    assert changes.collect()[1].metadata_location == entries[0].metadata_location


def history_is_read_in_sql(lake: Lake) -> None:
    branch, table = fresh(lake)
    commit = lake.write(orders(lake, 0, 5), table, branch=branch).commit
    register_functions(lake.spark)
    names = lake.spark.sql(f"select name from lochan_entries('{lake.uri}', '{branch}')").collect()
    assert table in {row.name for row in names}
    (newest,) = lake.spark.sql(
        f"select commit from lochan_log('{lake.uri}', '{branch}') order by seq desc limit 1"
    ).collect()
    assert newest.commit == commit


def batches_of_a_stream_are_written_once(lake: Lake) -> None:
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 5), table, branch=branch)
    lake.write(orders(lake, 5, 5), table, branch=branch)
    feed = lake.changes(branch, follow=True).where(F.col("name") == table).select("commit", "seq")
    other, target = fresh(lake)
    writer = feed.writeStream.foreachBatch(append_to(lake, target, other, query=branch))
    with TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "one"
        kept = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        catch_up(lake, branch, kept)
        # As after a crash between the end of a batch and the note of it.
        (checkpoint / "commits" / "0").unlink()
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
        lake.write(orders(lake, 10, 5), table, branch=branch)
        catch_up(lake, branch, kept)
        assert len(on(lake, other, target)) == 3
        lost = writer.option("checkpointLocation", str(Path(folder) / "two"))
        with pytest.raises(StreamingQueryException, match="with another checkpoint"):
            lost.start().awaitTermination()
    assert len(on(lake, other, target)) == 3


def an_audit_publishes_what_passes_and_nothing_else(lake: Lake) -> None:
    target, table = fresh(lake)
    declared = (
        checks.NotNull(table, ("id",)),
        checks.InRange(table, "net", min=0),
        checks.RowCount(table, min=10, max=10),
        checks.Unique(table, ("id",)),
    )
    with lake.audited(target, checks=declared) as audit:
        audit.write(orders(lake, 0, 10), table, partition_by=["region"])
    results = {each.kind: (each.status, each.how) for each in audit.report.checks}
    assert results["in_range"] == ("passed", "observed")
    assert results["row_count"] == ("passed", "observed")
    assert results["unique"] == ("passed", "query")
    published = lake.client.references.get(target).hash
    with pytest.raises(AuditFailed), lake.audited(target, checks=declared) as poor:
        poor.write(orders(lake, 10, 10, net=-1.0), table)
    assert {each.kind for each in poor.report.checks if each.status == "failed"} == {"in_range"}
    assert lake.client.references.get(target).hash == published
    assert ids(on(lake, target, table)) == list(range(10))


SUITE: tuple[Promise, ...] = (
    rows_are_written_and_read_by_branch,
    a_merge_replaces_and_adds,
    overwriting_replaces_partitions_or_everything,
    a_write_replaces_only_what_its_frame_has_read,
    lists_and_maps_survive,
    several_tables_are_one_commit,
    a_job_is_done_once,
    history_is_read_as_frames,
    history_is_read_in_sql,
    batches_of_a_stream_are_written_once,
    an_audit_publishes_what_passes_and_nothing_else,
)
NAMES = tuple(promise.__name__ for promise in SUITE)
# What differs most between one kind of executor and another.
ESSENTIAL = tuple(
    promise.__name__
    for promise in (
        rows_are_written_and_read_by_branch,
        a_merge_replaces_and_adds,
        lists_and_maps_survive,
        history_is_read_as_frames,
        an_audit_publishes_what_passes_and_nothing_else,
    )
)
