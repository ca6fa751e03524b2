"""Frames written into tables by branch: what is written is what everybody reads."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import (
    AlreadyExists,
    ContentNotFound,
    Invalid,
    NotABranch,
    ReferenceNotFound,
    TooLarge,
    Unavailable,
)
from lochan.model.contents import Namespace
from lochan.spark.write import files
from tests.spark.delete_files import delete_positions
from tests.spark.readers import by_frame, by_pyiceberg, same_for_all


def head(lake, branch: str = "main") -> str:
    return lake.client.references.get(branch).hash


def commits(lake, branch: str = "main") -> int:
    return len(lake.client.history.log(branch, 100).items)


def people(lake, *rows: tuple):
    return lake.spark.createDataFrame(rows, "id long, name string, city string")


def files_of(lake, table: str, branch: str = "main") -> set[str]:
    scan = lake.catalog.at(branch).load_table(table).scan()
    return {task.file.file_path for task in scan.plan_files()}


FOUR = ((1, "a", "Oslo"), (2, "b", "Oslo"), (3, "c", "Rome"), (4, "d", None))


def test_a_frame_becomes_a_table_in_one_commit(lake):
    frame = lake.spark.range(100).selectExpr("id", "cast(id % 3 as string) as region")
    written = lake.write(frame, "a.b.orders", message="the first")
    assert (written.table, written.rows, written.was_done_before) == ("a.b.orders", 100, False)
    assert head(lake) == written.commit
    (entry,) = lake.client.history.log("main", 10).items
    assert entry.meta.message == "the first"
    assert isinstance(lake.client.contents.get("main", ("a", "b"))[0], Namespace)
    table = lake.catalog.load_table("a.b.orders")
    assert table.current_snapshot().snapshot_id == written.snapshot_id
    assert table.properties["gc.enabled"] == "false"
    assert same_for_all(lake, "a.b.orders") == by_frame(frame)


def test_only_what_tasks_have_committed_is_in_a_snapshot(lake, tmp_path):
    written = lake.write(people(lake, *FOUR), "t.people", job="one job/1", partition_by=["city"])
    listed = files_of(lake, "t.people")
    (folder,) = (tmp_path / "warehouse" / "t").glob("*/data/*")
    assert folder.name.startswith("one-job-1-")
    on_disk = {f"file://{path}" for path in folder.rglob("*") if path.is_file()}
    assert {path for path in on_disk if not Path(path).name.startswith(".")} == listed
    assert (len(listed), written.files) == (3, 3)
    assert written.bytes == sum(
        Path(path.removeprefix("file://")).stat().st_size for path in listed
    )


def test_modes_add_replace_and_merge(lake):
    lake.write(people(lake, *FOUR), "t.people", partition_by=["city"])
    before = files_of(lake, "t.people")

    lake.write(people(lake, (5, "e", "Bern")), "t.people", mode="append")
    assert len(same_for_all(lake, "t.people")) == 5

    lake.write(
        people(lake, (6, "f", "Oslo"), (7, "g", None)), "t.people", "main", "overwrite_partitions"
    )
    rows = people(lake, (3, "c", "Rome"), (5, "e", "Bern"), (6, "f", "Oslo"), (7, "g", None))
    assert same_for_all(lake, "t.people") == by_frame(rows)
    # Rome was not in the frame, so its file is the one that was there.
    assert len(files_of(lake, "t.people") & before) == 1

    kept = files_of(lake, "t.people")
    merged = lake.write(
        people(lake, (3, "C", "Rome"), (8, "h", "Bern")), "t.people", mode="merge", keys=["id"]
    )
    rows = people(
        lake, (3, "C", "Rome"), (5, "e", "Bern"), (6, "f", "Oslo"), (7, "g", None), (8, "h", "Bern")
    )
    assert same_for_all(lake, "t.people") == by_frame(rows)
    assert merged.rows == 2
    # One file held a matching key; all others are as they were.
    assert len(kept - files_of(lake, "t.people")) == 1

    lake.write(people(lake, (9, "i", "Rome")), "t.people", mode="overwrite")
    assert same_for_all(lake, "t.people") == by_frame(people(lake, (9, "i", "Rome")))
    operations = [
        str(snapshot.summary.operation.value)
        for snapshot in lake.catalog.load_table("t.people").metadata.snapshots
    ]
    assert operations == ["append", "append", "overwrite", "overwrite", "overwrite"]
    assert commits(lake) == 5


def test_a_frame_without_rows_is_written_too(lake):
    lake.write(people(lake), "t.people", job="none", partition_by=["city"])
    assert lake.write(people(lake), "t.people", job="none").was_done_before
    lake.write(people(lake, *FOUR), "t.people")
    lake.write(people(lake), "t.people", mode="overwrite_partitions")
    lake.write(people(lake), "t.people", mode="merge", keys=["id"])
    assert len(same_for_all(lake, "t.people")) == 4
    lake.write(people(lake), "t.people", mode="overwrite")
    assert same_for_all(lake, "t.people") == []


class LostObservation(Observation):
    """What a busy server of Spark Connect gives: it does not wait for its own figures."""

    @property
    def get(self):
        return {}


def test_figures_that_spark_loses_are_counted_in_the_files(lake, monkeypatch):
    monkeypatch.setattr(files, "Observation", LostObservation)
    measures = [F.count(F.when(F.col("city") == "Oslo", 1)).alias("in_oslo")]
    four = people(lake, *FOUR)
    written = lake.write(four, "t.people", partition_by=["city"], measures=lambda frame: measures)
    assert (written.rows, written.measured) == (4, {"in_oslo": 2})
    assert len(same_for_all(lake, "t.people")) == 4
    before = head(lake)
    with pytest.raises(Invalid, match="NULL in id"):
        lake.write(people(lake, (None, "e", "Rome")), "t.people", mode="merge", keys=["id"])
    frame = lake.spark.sql("select cast(1 as long) id, array(1) several")
    lake.spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        with pytest.raises(Unavailable, match="write again"):
            lake.write(frame, "t.lists")
    finally:
        lake.spark.conf.unset("spark.sql.parquet.writeLegacyFormat")
    assert head(lake) == before


def test_branches_are_written_apart(lake):
    lake.write(people(lake, *FOUR), "t.people")
    lake.client.references.create("etl", "main")
    before = head(lake)
    lake.write(people(lake, (5, "e", "Bern")), "t.people", branch="etl")
    assert (head(lake), len(by_pyiceberg(lake, "t.people"))) == (before, 4)
    assert len(same_for_all(lake, "t.people", "etl")) == 5
    lake.client.references.create("v1", "main", kind="TAG")
    with pytest.raises(NotABranch):
        lake.write(people(lake, *FOUR), "t.people", branch="v1")
    with pytest.raises(ReferenceNotFound):
        lake.write(people(lake, *FOUR), "t.people", branch="missing")


def test_several_tables_are_one_commit(lake):
    with lake.writing(job="daily", message="all of today") as batch:
        batch.write(people(lake, *FOUR), "t.people")
        batch.write(lake.spark.range(3), "t.numbers", partition_by=["bucket(2, id)"])
        assert commits(lake) == 0
    assert [each.table for each in batch.written] == ["t.people", "t.numbers"]
    assert {each.commit for each in batch.written} == {head(lake)}
    assert commits(lake) == 1
    with lake.writing(job="daily") as batch:
        batch.write(lake.spark.range(3), "t.numbers")
        batch.write(lake.spark.range(7), "t.more")
    assert [each.was_done_before for each in batch.written] == [True, False]
    assert lake.read("t.numbers").count() == 3
    assert lake.read("t.more").count() == 7


def test_an_error_in_a_batch_leaves_the_branch_as_it_was(lake):
    lake.write(people(lake, *FOUR), "t.people")
    before = head(lake)
    with suppress(ZeroDivisionError), lake.writing() as batch:
        batch.write(people(lake, (5, "e", "Bern")), "t.people", mode="overwrite")
        _ = 1 / 0
    with lake.writing() as batch:
        batch.write(lake.spark.range(1), "t.numbers")
        with pytest.raises(Invalid, match="in the batch already"):
            batch.write(lake.spark.range(1), "t.numbers")
        before_the_end = head(lake)
    assert before_the_end == before
    assert commits(lake) == 2
    with pytest.raises(Invalid, match="used as a block"):
        batch.write(lake.spark.range(1), "t.numbers")
    with lake.writing():
        pass
    assert commits(lake) == 2


def test_a_job_that_fails_midway_leaves_the_branch_as_it_was(lake):
    from pyspark.errors import PySparkException

    lake.write(lake.spark.range(10), "t.numbers")
    before = head(lake)
    bad = lake.spark.range(0, 1_000, 1, 4).selectExpr(
        "if(id = 990, cast(raise_error('a row that nobody can compute') as bigint), id) as id"
    )
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="nobody can compute"):
            lake.write(bad, "t.numbers", mode=mode, job="bad")
    assert head(lake) == before
    assert len(by_pyiceberg(lake, "t.numbers")) == 10
    assert lake.write(lake.spark.range(5), "t.numbers", job="bad").rows == 5


def test_a_merge_replaces_rows_by_several_keys_across_specs_and_files(lake):
    frame = lake.spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as half", "'old' as v")
    lake.write(frame, "t.wide")
    table = lake.catalog.load_table("t.wide")
    with table.update_spec() as update:
        update.add_identity("half")
    source = lake.spark.createDataFrame(
        [(3, 1, "new"), (3, 0, "new"), (77, 1, "new")], frame.schema
    )
    lake.write(source, "t.wide", mode="merge", keys=["id", "half"])
    rows = [(number, number % 2, "new" if number == 3 else "old") for number in range(40)]
    expected = lake.spark.createDataFrame([*rows, (3, 0, "new"), (77, 1, "new")], frame.schema)
    assert same_for_all(lake, "t.wide") == by_frame(expected)
    with pytest.raises(Invalid, match="partitioned otherwise"):
        lake.write(source, "t.wide", mode="overwrite_partitions")


def test_a_merge_makes_the_table_and_rows_without_a_key_stay(lake):
    lake.write(people(lake, *FOUR), "t.people", mode="merge", keys=["id"])
    lake.write(people(lake, (None, "n", None)), "t.people")
    lake.write(people(lake, (4, "D", "Bern")), "t.people", mode="merge", keys=["id"])
    expected = people(lake, *FOUR[:3], (4, "D", "Bern"), (None, "n", None))
    assert same_for_all(lake, "t.people") == by_frame(expected)


def test_rows_that_were_deleted_by_position_do_not_come_back(lake):
    frame = lake.spark.range(0, 10, 1, 1).selectExpr("id", "'old' as v")
    lake.write(frame, "t.n")
    (path,) = files_of(lake, "t.n")
    delete_positions(lake.catalog.load_table("t.n"), {path: [2, 3]})
    new = lake.spark.createDataFrame([(3, "new"), (4, "new")], frame.schema)
    lake.write(new, "t.n", mode="merge", keys=["id"])
    kept = [(number, "old") for number in (0, 1, 5, 6, 7, 8, 9)]
    expected = lake.spark.createDataFrame([*kept, (3, "new"), (4, "new")], frame.schema)
    assert same_for_all(lake, "t.n") == by_frame(expected)
    delete_positions(lake.catalog.load_table("t.n"), {min(files_of(lake, "t.n")): [0]})
    lake.write(new, "t.n", mode="overwrite")
    assert same_for_all(lake, "t.n") == by_frame(new)
    table = lake.catalog.load_table("t.n")
    contents = [each.content.name for each in table.current_snapshot().manifests(table.io)]
    # What was added, and what was removed; of what was there before nothing is left.
    assert contents == ["DATA", "DATA"]
    assert (table.current_snapshot().summary["total-delete-files"] or "0") == "0"


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (((1, "x", "y"), (1, "z", "y")), {"keys": ["id"]}, "rows with the same id: 1"),
        (((None, "x", "y"),), {"keys": ["id"]}, "NULL in id, by which it is merged"),
        (((1, "x", "y"),), {}, "needs keys"),
        (((1, "x", "y"),), {"keys": "id"}, "list of texts"),
        (((1, "x", "y"),), {"keys": ["number"]}, "no column number"),
    ],
)
def test_a_merge_that_nobody_can_understand_is_refused(lake, rows, more, message):
    lake.write(people(lake, *FOUR), "t.people")
    before = head(lake)
    with pytest.raises(Invalid, match=message):
        lake.write(people(lake, *rows), "t.people", mode="merge", **more)
    assert head(lake) == before


def test_a_merge_needs_whole_rows(lake):
    lake.write(people(lake, *FOUR), "t.people")
    with pytest.raises(Invalid, match="city is missing; rows that match are replaced whole"):
        lake.write(people(lake, *FOUR).drop("city"), "t.people", mode="merge", keys=["id"])


def test_a_key_may_have_any_name(lake):
    frame = lake.spark.sql("select 1L as count, 2L as number, 'old' as `1`")
    lake.write(frame, "t.names")
    new = lake.spark.sql("select 1L as count, 2L as number, 'new' as `1`")
    lake.write(new, "t.names", mode="merge", keys=["count", "number"])
    assert same_for_all(lake, "t.names") == by_frame(new)
    with pytest.raises(Invalid, match="rows with the same count: 1"):
        lake.write(new.union(frame), "t.names", mode="merge", keys=["count"])


def test_properties_of_a_table_that_is_there_are_not_passed_over(lake):
    mine = {"owner": "ada", "format-version": "2"}
    lake.write(people(lake, *FOUR), "t.people", properties=mine)
    lake.write(people(lake, *FOUR), "t.people", properties=mine)
    before = head(lake)
    for other in ({"owner": "bob"}, {"more": "1"}, {"format-version": "1"}):
        with pytest.raises(Invalid, match=r"t\.people has not the property \S+ that is requested"):
            lake.write(people(lake, *FOUR), "t.people", properties=other)
    assert head(lake) == before


def test_a_format_that_cannot_be_written_is_refused_before_anything_is(lake, tmp_path):
    with pytest.raises(Invalid, match=r"t\.new has format 3; at most format 2 is written"):
        lake.write(people(lake, *FOUR), "t.new", properties={"format-version": "3"})
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))
    assert commits(lake) == 0


def test_a_frame_of_another_session_is_written_as_iceberg_wants_it(lake):
    mine = lake.spark.newSession()
    for session in (mine, lake.spark):
        session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
        session.conf.set("spark.sql.parquet.fieldId.write.enabled", "false")
    row = "date'1500-01-01' as d, timestamp'1500-01-01 00:00:00Z' as ts"
    lake.write(mine.sql(f"select 1L as id, {row}"), "t.old", partition_by=["day(ts)"])
    lake.write(mine.sql(f"select 2L as id, {row}"), "t.old", mode="merge", keys=["id"])
    expected = [
        {"id": each, "d": date(1500, 1, 1), "ts": datetime(1500, 1, 1, tzinfo=UTC)}
        for each in (1, 2)
    ]
    rows = lake.catalog.load_table("t.old").scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == expected
    assert lake.read("t.old", where="d = '1500-01-01'").count() == 2


def test_calls_that_mean_nothing_are_refused(lake):
    lake.write(people(lake, *FOUR), "t.people")
    frame = people(lake, *FOUR)
    with pytest.raises(Invalid, match="there is no mode 'upsert'"):
        lake.write(frame, "t.people", mode="upsert")
    with pytest.raises(Invalid, match="keys are for"):
        lake.write(frame, "t.people", keys=["id"])
    with pytest.raises(Invalid, match="a job has a name"):
        lake.write(frame, "t.people", job=" ")
    with pytest.raises(TooLarge):
        lake.write(frame, "t.people", job="x" * 501)
    with pytest.raises(Invalid, match="leave partition_by out"):
        lake.write(frame, "t.people", partition_by=["city"])
    with pytest.raises(ContentNotFound, match=r"no table t\.other on main"):
        lake.write(frame, "t.other", create=False)
    with pytest.raises(AlreadyExists):
        lake.write(frame, "t.people.inside")
    with pytest.raises(AlreadyExists):
        lake.write(frame, "t")
    assert commits(lake) == 1


def test_texts_numbers_and_bytes_of_every_kind_come_back(lake):
    token = str(uuid.uuid4())
    frame = lake.spark.sql(
        f"""select 1 as `a b.c`, array(1, null) as l, array(named_struct('x', 1L, 'y', 'q')) as ls,
        map('k', named_struct('z', array(1.5D))) as m, cast('{token}' as string) as u,
        cast('abc' as binary) as f, 'x' as `partition`, timestamp_ntz'2024-01-01 10:00:00' as nt,
        cast(1.5 as decimal(38, 10)) as big, true as t, named_struct('p', named_struct('q', 1)) as s
        """
    )
    lake.write(frame, "t.kinds", partition_by=["partition"])
    lake.write(frame, "t.kinds")
    assert same_for_all(lake, "t.kinds") == sorted(by_frame(frame) * 2)
