"""Writes that stop in the middle until a gate is opened; functions for a driver's lake."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from lochan.spark import checks
from lochan.spark.lake import Lake
from lochan.spark.storage import find_access
from tests.spark.cluster.faults import gated
from tests.spark.cluster.suite import on, orders

PARTS = 4
# So many tasks do not wait, so that some are done when something is killed.
FREE = 2


def write(lake: Lake, branch: str, table: str, job: str, gate: str, **more: Any) -> dict[str, Any]:
    """Writes 400 orders in four tasks, the last of which wait at the gate."""
    frame = orders(lake, 0, 400).withColumn("id", gated(F.col("id"), gate, FREE))
    written = lake.write(frame, table, branch=branch, job=job, **more)
    return {"rows": written.rows, "again": written.was_done_before}


def write_shuffled(lake: Lake, branch: str, table: str, gate: str) -> dict[str, Any]:
    """Writes rows that come from other tasks, into partitions, under an audit that counts them.

    What an executor has handed on is lost with it, so that stages which were done are run again.
    """
    frame = orders(lake, 0, 400).repartition(PARTS, "id")
    frame = frame.withColumn("id", gated(F.col("id"), gate, FREE))
    declared = (checks.InRange(table, "id", 0, 399), checks.Unique(table, ("id",)))
    with lake.audited(branch, checks=declared) as audit:
        written = audit.write(frame, table, partition_by=["region"])
    return {"rows": written.rows, "again": written.was_done_before}


def found(lake: Lake, branch: str, table: str) -> dict[str, Any]:
    """Returns how often the orders of a table are there."""
    counts = Counter(row["id"] for row in on(lake, branch, table))
    return {"ids": sorted(counts), "most": max(counts.values())}


def about(lake: Lake) -> dict[str, str]:
    """Returns the driver's name in its cluster, and who reads and writes the warehouse's files."""
    name = lake.spark.conf.get("spark.app.id")
    assert name is not None
    return {"application": name, "way": find_access(lake, lake.warehouse)}
