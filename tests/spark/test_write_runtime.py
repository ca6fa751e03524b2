"""Iceberg's own Spark runtime reads what we write."""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest
from pyiceberg import types as iceberg

from lochan.spark.write.snapshots import all_files
from tests.profile import counted
from tests.spark.edges import KINDS, make_table
from tests.spark.test_partition_values import rewrite, rows_of

ROOT = Path(__file__).parents[2]
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
CHILD_S = 540
UNRESOLVED = ("unresolved dependency", "UNRESOLVED DEPENDENCIES", "Server access error")

EVERYTHING = """
select id, cast(id as int) as i, s, date_add(date'1969-12-30', cast(id as int)) as d,
  timestamp_micros(id * 7777777777) as ts, timestamp_ntz'2024-02-29 23:59:59.999999' as nt,
  cast(id as decimal(20, 4)) / 7 as m, id % 2 = 0 as t, id / 3.0D as f, encode(s, 'utf-8') as b,
  named_struct('x', id, 'y', named_struct('z', s)) as st, cast(null as string) as nothing
from (select id, concat('b', id) as s from range(50))
"""


def edges(lake) -> list[str]:
    """Makes a table for each type that a partition can have; their manifests are rewritten.

    But for `fixed`: the runtime reads and writes such partitions in a form that is not Avro's
    (apache/iceberg issue 17501), so that it does not read those of others.
    """
    names = []
    for kind in KINDS[:: counted(4, 1)]:
        if kind.name == "fixed":
            continue
        names.append(f"edges.{kind.name}")
        make_table(lake, names[-1], kind, [kind.name], rows_of(kind))
        rewrite(lake, names[-1])
    return names


def partitions(lake, name: str) -> list[dict]:
    """The files of a table and their partitions, as Spark shows them as JSON."""
    table = lake.catalog.load_table(name)
    (field,) = table.spec().fields
    found = []
    for file in all_files(table):
        value = shown(file.partition[0], table.schema().find_type(field.source_id))
        found.append(
            {
                "file_path": file.file_path,
                # Spark leaves out what is NULL.
                "partition": {} if value is None else {field.name: value},
            }
        )
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def shown(value: Any, kind: iceberg.IcebergType) -> Any:
    match kind:
        case _ if value is None:
            return None
        case iceberg.FloatType() | iceberg.DoubleType() if not math.isfinite(value):
            return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
        case iceberg.FloatType():
            # Java writes the smallest with a digit more.
            return 1.4e-45 if value < 1e-44 and value > 0 else float(str(np.float32(value)))
        case iceberg.DecimalType():
            return float(value)
        case iceberg.BinaryType() | iceberg.FixedType():
            return base64.b64encode(value).decode()
        case iceberg.UUIDType():
            return str(value)
        case iceberg.DateType():
            return date.fromordinal(value + date(1970, 1, 1).toordinal()).isoformat()
        case iceberg.TimestampType() | iceberg.TimestamptzType():
            moment = datetime(1970, 1, 1) + timedelta(microseconds=value)  # noqa: DTZ001
            # Spark shows no more than milliseconds.
            text = moment.isoformat(timespec="milliseconds")
            return text + ("Z" if isinstance(kind, iceberg.TimestamptzType) else "")
        case _:
            return value


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_runtime_of_iceberg_reads_the_same_rows(lake):
    if not pyspark.__version__.startswith("4.1."):
        pytest.skip(f"there is no Iceberg runtime for pyspark {pyspark.__version__}; 4.1 has one")
    frame = lake.spark.sql(EVERYTHING)
    lists = frame.selectExpr("*", "array(id, null) as l", "array(st) as ls", "map(s, st) as mp")
    by = ["day(d)", "bucket(3, id)", "truncate(2, s)", "st.x"]
    with lake.writing() as batch:
        batch.write(frame, "t.plain")
        batch.write(frame, "t.parts", partition_by=["month(ts)", "bucket(3, id)", "truncate(2, s)"])
        batch.write(lists, "t.lists", partition_by=by)
    lake.write(frame.where("id < 5"), "t.parts", mode="merge", keys=["id"])
    lake.write(frame.where("id = 7"), "t.parts", mode="overwrite_partitions")
    with lake.catalog.load_table("t.plain").update_schema() as update:
        update.rename_column("s", "text")
    lake.write(frame.withColumnRenamed("s", "text"), "t.plain")
    with lake.catalog.load_table("t.lists").update_schema() as update:
        # Found by its id, which Spark does not write, or not at all.
        update.rename_column("ls.element.x", "first")
        update.rename_column("mp.value.y", "second")
    tables = ("t.plain", "t.parts", "t.lists", *edges(lake))
    places = [lake.catalog.load_table(name).metadata_location for name in tables]
    # What the runtime filters by: the partition of every file, after our rewrites.
    # It has no way to show one that is a uuid.
    listed = [name for name in tables[3:] if name != "edges.uuid"]
    places += [f"{lake.catalog.load_table(name).metadata_location}#files" for name in listed]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.runtime_child", RUNTIME, *places],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        check=False,
    )
    if any(word in done.stderr for word in UNRESOLVED):
        pytest.skip(f"{RUNTIME} is missing: no Maven repository could be reached")
    assert done.returncode == 0, done.stderr[-3_000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name, files in zip(listed, theirs[len(tables) :], strict=True):
        assert [json.loads(each) for each in files] == partitions(lake, name), name
    for name, rows in zip(tables, theirs[: len(tables)], strict=True):
        ours = [json.loads(row) for row in lake.read(name).toJSON().collect()]
        # The runtime shows the value of the partition, in which negative zero is zero.
        expected = [json.dumps(row, sort_keys=True).replace(": -0.0,", ": 0.0,") for row in ours]
        assert rows == sorted(expected), name
