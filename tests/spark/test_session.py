"""Sessions: the settings that they have, and those of other people's that are left alone."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.functions import udf

from lochan.base.errors import Invalid, LochanError, Unavailable
from lochan.spark import Lake, session
from lochan.spark.session import RUNTIME_SETTINGS
from tests.profile import in_deep_only
from tests.spark.child import run


def test_the_package_gives_the_function_and_not_the_module_of_its_name():
    import lochan.spark

    assert lochan.spark.session is sys.modules["lochan.spark.session"].session


def test_a_session_of_ours_has_what_tables_need(spark):
    for key, value in RUNTIME_SETTINGS.items():
        assert spark.conf.get(key) == value
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_settings_of_the_caller_win(spark):
    # The session that runs already is returned, with what is asked for now.
    mine = session("again", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    assert mine.conf.get("spark.sql.shuffle.partitions") == "2"


def test_workers_run_the_interpreter_that_runs_here(spark):
    program = udf(lambda _: sys.executable, "string", useArrow=False)
    (row,) = spark.range(1).select(program("id").alias("program")).collect()
    assert row["program"] == os.environ["PYSPARK_PYTHON"]
    assert os.path.samefile(row["program"], sys.executable)


def test_a_session_of_the_user_gets_only_what_reading_and_writing_need(spark, server, tmp_path):
    mine = spark.newSession()
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    mine.conf.set("spark.sql.shuffle.partitions", "3")
    mine.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    mine.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    before = everything(mine)
    with Lake(mine, server, warehouse=str(tmp_path)) as lake:
        assert lake.spark is mine
        assert everything(mine) == before | dict(RUNTIME_SETTINGS)
        lake.write(mine.range(3), "t.n")
        assert lake.read("t.n").count() == 3
        assert everything(mine) == before | dict(RUNTIME_SETTINGS)
    assert everything(mine) == before
    assert before["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert before["spark.sql.parquet.outputTimestampType"] == "INT96"


def everything(session) -> dict[str, str]:
    """All settings that a session has, of those that it may change."""
    rows = session.sql("SET").collect()
    return {row["key"]: row["value"] for row in rows if session.conf.isModifiable(row["key"])}


def test_the_last_lake_that_is_closed_sets_the_session_back(spark, server, tmp_path):
    mine = spark.newSession()
    ids, times, rebase = (
        "spark.sql.parquet.fieldId.read.enabled",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.datetimeRebaseModeInWrite",
    )
    for key in RUNTIME_SETTINGS:
        mine.conf.unset(key)
    mine.conf.set(rebase, "LEGACY")
    before = everything(mine)
    first, second = (Lake(mine, server, warehouse=str(tmp_path)) for _ in range(2))
    mine.conf.set(ids, "false")
    first.write(mine.range(3), "t.n")
    # What the user changes is set again for a read, and is what the user gets back.
    assert first.read("t.n").count() == 3
    assert mine.conf.get(ids) == "true"
    first.close()
    first.close()
    assert everything(mine) == before | dict(RUNTIME_SETTINGS)
    mine.conf.set(times, "TIMESTAMP_MILLIS")
    second.close()
    changed = {ids: "false", times: "TIMESTAMP_MILLIS"}
    assert everything(mine) == before | changed
    assert mine.conf.get(rebase) == "LEGACY"


def test_a_lake_that_could_not_be_opened_leaves_the_session_alone(spark, tmp_path):
    mine = spark.newSession()
    mine.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    before = everything(mine)
    for wrong in ("http://127.0.0.1:9", "nonsense", "rocksdb:"):
        with pytest.raises(LochanError):
            Lake(mine, wrong, warehouse=str(tmp_path))
    assert everything(mine) == before


def test_frames_of_another_session_are_written_and_that_session_is_set_back(
    spark, server, tmp_path
):
    other = spark.newSession()
    other.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    before = everything(other)
    with Lake(spark, server, warehouse=str(tmp_path)) as lake:
        lake.write(other.sql("SELECT timestamp'2020-01-01' t"), "t.n")
        assert lake.read("t.n").count() == 1
    assert everything(other) == before


def test_a_second_call_returns_the_session_that_runs_and_keeps_its_settings(spark):
    again = session("other", settings={"spark.sql.ui.explainMode": "extended"})
    assert again.conf.get("spark.app.name") == "tests"
    assert again.conf.get("spark.sql.shuffle.partitions") == "2"
    assert again.conf.get("spark.sql.ui.explainMode") == "extended"
    with pytest.raises(Invalid, match=r"session that runs refuses the setting spark\.ui\.enabled"):
        session("other", settings={"spark.ui.enabled": "true"})


def test_a_call_in_another_thread_keeps_the_settings_of_the_session_that_runs(spark):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with ThreadPoolExecutor(1) as thread:
            again = thread.submit(session, "other").result()
            with pytest.raises(Invalid, match=r"a session runs on local\[2\]"):
                thread.submit(session, "other", "local[7]").result()
        assert again.conf.get("spark.app.name") == "tests"
        for each in (spark, again):
            assert each.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
            assert each.conf.get("spark.sql.shuffle.partitions") == "2"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@in_deep_only
def test_a_session_whose_context_was_stopped_does_not_run():
    program = """
import json
from lochan.spark import session
first = session("first", "local[1]")
first.sparkContext.stop()
second = session("second", "local[1]")
print(json.dumps([second.conf.get("spark.app.name"), second.range(3).count()]))
second.stop()
"""
    assert run(program, dict(os.environ)) == ["second", 3]


def test_another_master_than_that_of_the_session_that_runs_is_refused(spark):
    with pytest.raises(Invalid, match=r"runs on local\[2\]; stop it before you ask .* local\[7\]"):
        session("other", master="local[7]")
    same = session("other", master="local[2]")
    assert same.conf.get("spark.app.name") == "tests"


def test_a_master_that_there_is_not_is_an_error_in_words(spark):
    program = """
import json
from lochan.base.errors import Invalid, Unavailable
from lochan.spark import session
try:
    session("x", master="nonsense:1")
except Unavailable as error:
    print(json.dumps(error.message))
"""
    message = run(program, dict(os.environ))
    assert message.startswith("no Spark session on nonsense:1: ")
    assert "The reason is on standard error" in message


def test_a_server_that_does_not_answer_is_an_error_and_not_a_lake(spark, tmp_path):
    with pytest.raises(Unavailable, match="no connection to"):
        Lake(spark, "http://127.0.0.1:9", warehouse=str(tmp_path))


CONNECT = """
import json
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession
from lochan.spark import Lake
from lochan.spark.session import RUNTIME_SETTINGS
from tests.spark.delete_files import delete_by_vector, delete_positions, paths_of
from tests.spark.connect_filters import filter_frames

spark = SparkSession.builder.remote("local[2]").getOrCreate()
schema = Schema(NestedField(1, "n", LongType(), required=False))
settings = lambda: {key: spark.conf.get(key, None) for key in RUNTIME_SETTINGS}
spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
before = settings()
with Lake(spark, "memory:", warehouse=WAREHOUSE, author="ada") as lake:
    within = settings()
    table = lake.catalog.create_table("t.n", schema)
    for start in (0, 10, 20):
        table.append(pa.table({"n": range(start, start + 10)}))
    first, second, _ = paths_of(table)
    with table.update_schema() as change:
        change.rename_column("n", "m")
    delete_positions(table, {first: [0]})
    delete_by_vector(table, second, [1, 2])
    found = {
        "all": lake.read("t.n").count(),
        "some": sorted(row["m"] for row in lake.read("t.n", where="m >= 18 and m < 22").collect()),
        "kind": type(spark).__module__,
        "within": within == RUNTIME_SETTINGS,
        "filters": filter_frames(lake),
    }
    lake.write(lake.read("t.n"), "t.m")
    (commit,) = lake.client.history.log("main", 1).items
    found["authors"] = [*commit.meta.authors, *dict(commit.meta.properties)]
found["back"] = settings() == before
spark.stop()
print(json.dumps(found))
"""


@in_deep_only
def test_a_session_through_connect_reads_natively_by_deletes_and_by_pyiceberg(spark, tmp_path):
    program = f"WAREHOUSE = {str(tmp_path)!r}\n{CONNECT}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK")}
    found = run(program, environment)
    assert "connect" in found["kind"]
    assert (found["within"], found["back"]) == (True, True)
    assert found["authors"] == ["ada", "app-id", "application-type", "lochan.job"]
    assert found["all"] == 27
    assert found["filters"] == []
    # Of the files the newest is planned first: 20 was deleted from it by position.
    assert found["some"] == [18, 19, 21]
