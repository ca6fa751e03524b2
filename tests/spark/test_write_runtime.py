"""Iceberg's own Spark runtime reads what we write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

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
    tables = ("t.plain", "t.parts", "t.lists")
    places = [lake.catalog.load_table(name).metadata_location for name in tables]
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
    for name, rows in zip(tables, theirs, strict=True):
        ours = [json.loads(row) for row in lake.read(name).toJSON().collect()]
        assert rows == sorted(json.dumps(row, sort_keys=True) for row in ours), name
