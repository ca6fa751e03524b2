"""Tasks that fail on the way: functions for a lake whose tasks may fail three times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, UUIDType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import AuditFailed
from lochan.spark import checks
from lochan.spark.lake import Lake
from lochan.spark.schemas import to_iceberg
from tests.spark.cluster.faults import LostReplies, failing
from tests.spark.cluster.suite import Promise, fresh, ids, on, orders

LOST = {"py-io-impl": f"{LostReplies.__module__}.{LostReplies.__name__}"}


def doomed(frame: DataFrame, attempts: int, above: int = -1) -> DataFrame:
    """Returns a frame whose tasks fail in their first attempts, when some rows have passed."""
    return frame.withColumn("id", failing(F.col("id"), attempts, above))


def stored(lake: Lake, branch: str, table: str) -> tuple[set[str], set[str]]:
    """Returns the data files that lie in a table's directory, and those that its snapshot has."""
    loaded = lake.catalog.at(branch).load_table(table)
    folder = Path(urlsplit(loaded.location()).path, "data")
    known = {urlsplit(task.file.file_path).path for task in loaded.scan().plan_files()}
    return {str(path) for path in folder.rglob("*.parquet")}, known


def tasks_that_fail_once_write_their_rows_once(lake: Lake) -> None:
    branch, table = fresh(lake)
    for mode in ("append", "overwrite_partitions"):
        frame = doomed(orders(lake, 0, 400), attempts=1, above=70)
        lake.write(frame, table, branch=branch, mode=mode, partition_by=["region"])
        assert ids(on(lake, branch, table)) == list(range(400))
    _, known = stored(lake, branch, table)
    assert known


def files_of_a_failed_attempt_are_not_in_the_snapshot(lake: Lake) -> None:
    branch, table = fresh(lake)
    # Only what pyarrow writes goes through its files, and uuids are written by pyarrow.
    frame = orders(lake, 0, 40).withColumn("token", F.lit(str(UUID(int=7))))
    columns = [
        NestedField(0, "token", UUIDType()) if field.name == "token" else field
        for field in to_iceberg(frame.schema).fields
    ]
    catalog = lake.catalog.at(branch)
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    catalog.create_table(table, Schema(*columns))
    place = {"warehouse": lake.warehouse, "repository": lake.repository}
    with Lake(lake.spark, lake.uri, files=LOST, **place) as unlucky:
        written = unlucky.write(frame, table, branch=branch)
    assert ids(on(lake, branch, table)) == list(range(40))
    there, known = stored(lake, branch, table)
    assert len(known) == written.files == 4
    assert known < there
    # Whole files, each with rows that the snapshot has from elsewhere.
    assert len(there) == 8
    assert all(Path(path).read_bytes().endswith(b"PAR1") for path in there)


def lists_and_maps_are_whole_though_tasks_fail(lake: Lake) -> None:
    branch, table = fresh(lake)
    frame = orders(lake, 0, 60).withColumn("both", F.array("id", F.lit(7)))
    frame = frame.withColumn("named", F.create_map(F.lit("id"), F.col("id")))
    lake.write(doomed(frame, attempts=2), table, branch=branch)
    found = on(lake, branch, table)
    assert ids(found) == list(range(60))
    assert all(row["both"] == [row["id"], 7] for row in found)
    assert all(dict(row["named"]) == {"id": row["id"]} for row in found)
    there, known = stored(lake, branch, table)
    assert there == known


def merged_rows_are_there_once_though_tasks_fail(lake: Lake) -> None:
    branch, table = fresh(lake)
    lake.write(doomed(orders(lake, 0, 60), attempts=2), table, branch=branch)
    new = doomed(orders(lake, 40, 40, net=7.0), attempts=2)
    lake.write(new, table, branch=branch, mode="merge", keys=["id"])
    found = on(lake, branch, table)
    assert ids(found) == list(range(80))
    assert all(row["net"] == row["id"] * (7.0 if row["id"] >= 40 else 1.5) for row in found)


def watched_rows_are_counted_once_though_tasks_fail(lake: Lake) -> None:
    branch, table = fresh(lake)
    declared = (checks.RowCount(table, min=60, max=60), checks.InRange(table, "id", 0, 59))
    with lake.audited(branch, checks=declared) as audit:
        audit.write(doomed(orders(lake, 0, 60), attempts=2), table)
    assert {each.status for each in audit.report.checks} == {"passed"}
    with pytest.raises(AuditFailed), lake.audited(branch, checks=declared) as poor:
        poor.write(doomed(orders(lake, 0, 30), attempts=1), table)
    assert ids(on(lake, branch, table)) == list(range(60))


def a_task_that_fails_for_good_leaves_the_branch_as_it_was(lake: Lake) -> None:
    branch, table = fresh(lake)
    native = doomed(orders(lake, 0, 400), attempts=99, above=390)
    lists = native.withColumn("both", F.array("id", "id"))
    lake.write(orders(lake, 1_000, 10), table, branch=branch)
    before = lake.client.references.get(branch).hash
    declared = (checks.RowCount(table, min=1),)
    attempts: list[Callable[[], object]] = [
        lambda: lake.write(native, table, branch=branch),
        lambda: lake.write(native, table, branch=branch, mode="merge", keys=["id"]),
        lambda: lake.write(native, table, branch=branch, mode="overwrite"),
        lambda: lake.write(lists, f"{table}_new", branch=branch),
        lambda: _batch(lake, branch, table, native),
        lambda: _audit(lake, branch, table, native, declared),
    ]
    for attempt in attempts:
        with pytest.raises(PySparkException, match="a task was made to fail"):
            attempt()
        assert lake.client.references.get(branch).hash == before
    assert ids(on(lake, branch, table)) == list(range(1_000, 1_010))


def _batch(lake: Lake, branch: str, table: str, frame: DataFrame) -> None:
    with lake.writing(branch=branch) as batch:
        batch.write(orders(lake, 0, 5), f"{table}_other")
        batch.write(frame, table)


def _audit(lake: Lake, branch: str, table: str, frame: DataFrame, declared: Any) -> None:
    with lake.audited(branch, checks=declared) as audit:
        audit.write(frame, table)


RETRIES: tuple[Promise, ...] = (
    tasks_that_fail_once_write_their_rows_once,
    files_of_a_failed_attempt_are_not_in_the_snapshot,
    lists_and_maps_are_whole_though_tasks_fail,
    merged_rows_are_there_once_though_tasks_fail,
    watched_rows_are_counted_once_though_tasks_fail,
    a_task_that_fails_for_good_leaves_the_branch_as_it_was,
)
NAMES = tuple(promise.__name__ for promise in RETRIES)
