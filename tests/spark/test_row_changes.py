"""Deleting and updating rows: those that Spark would choose, and no file that has none of them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import AuditFailed, ContentNotFound, Invalid
from tests.profile import counted
from tests.spark.delete_files import delete_positions
from tests.spark.readers import same_for_all
from tests.spark.test_writing_races import Once, found, numbers


def files(lake, table: str = "t.n") -> set[str]:
    tasks = lake.catalog.load_table(table).scan().plan_files()
    return {task.file.file_path for task in tasks}


def prepare(lake) -> None:
    """Makes a table of six rows in three files, one of them with NULLs."""
    first = numbers(lake, 1, 2, 3, 4, v="old").repartition(1)
    lake.write(first, "t.n", partition_by=["half"])
    nulls = lake.spark.createDataFrame(
        [(5, 1, None), (6, None, "old")], "id long, half long, v string"
    )
    lake.write(nulls.repartition(1), "t.n")


def rows(lake) -> list[tuple]:
    found = lake.catalog.load_table("t.n").scan().to_arrow().to_pylist()
    return sorted((row["id"], row["half"], row["v"]) for row in found)


def test_a_delete_rewrites_only_files_that_have_matching_rows(lake):
    prepare(lake)
    before = files(lake)
    assert len(before) == 4
    done = lake.delete("t.n", "id = 1")
    assert (done.rows, done.files, done.files_removed) == (1, 1, 1)
    after = files(lake)
    assert len(before - after) == len(after - before) == 1
    # The other partition as a whole: a file goes, and none is written.
    done = lake.delete("t.n", "half = 0")
    assert (done.rows, done.files, done.files_removed) == (2, 0, 1)
    assert rows(lake) == [(3, 1, "old"), (5, 1, None), (6, None, "old")]
    same_for_all(lake, "t.n")


def test_a_row_whose_condition_is_null_stays(lake):
    prepare(lake)
    assert lake.delete("t.n", "v <> 'old'").rows == 0
    assert lake.delete("t.n", "NOT (v = 'old')").rows == 0
    assert lake.delete("t.n", "concat(v, '') <> 'old'").rows == 0
    done = lake.update("t.n", {"v": "'new'"}, "upper(v) = 'OLD' and half + 0 = 1")
    assert done.rows == 2
    assert lake.delete("t.n", "coalesce(v, 'none') = 'none'").rows == 1
    assert [(row[0], row[2]) for row in rows(lake)] == [
        (1, "new"),
        (2, "old"),
        (3, "new"),
        (4, "old"),
        (6, "old"),
    ]


def test_what_matches_nothing_makes_no_commit(lake):
    prepare(lake)
    head = lake.client.references.get("main").hash
    done = lake.delete("t.n", "id = 100", job="none")
    assert (done.commit, done.rows, done.files, done.files_removed) == (head, 0, 0, 0)
    assert lake.update("t.n", {"v": "'x'"}, "id % 100 = 99").rows == 0
    assert lake.client.references.get("main").hash == head


def test_every_kind_of_condition(lake):
    prepare(lake)
    lake.delete("t.n", EqualTo(term=Reference("id"), value=literal(1)))
    lake.delete("t.n", F.col("id") == 2)
    lake.delete("t.n", "id between 3 and 3 or length(v) > 100")
    numbers(lake, 4).createOrReplaceTempView("row_changes_ids")
    lake.delete("t.n", "id in (select id from row_changes_ids)")
    assert [row[0] for row in rows(lake)] == [5, 6]
    lake.update("t.n", {"v": "'sub'"}, "id not in (select id + 2 from row_changes_ids)")
    assert rows(lake) == [(5, 1, "sub"), (6, None, "old")]
    lake.delete("t.n", "true")
    assert rows(lake) == []
    assert not files(lake)
    for where in (None, "", " "):
        with pytest.raises(Invalid, match=r'needs a condition; for all rows write where="true"'):
            lake.delete("t.n", where)
    with pytest.raises(Invalid, match=r"Spark cannot do what is asked of t\.n: .*nix"):
        lake.delete("t.n", "length(nix) = 1")
    with pytest.raises(Invalid, match=r"Spark cannot do what is asked of t\.n"):
        lake.delete("t.n", "id = = 1")
    lake.write(numbers(lake, 1), "t.n")
    for bad in ("v = 5", "1 / (id - 1) > 0"):
        with pytest.raises(Invalid, match=r"CAST_INVALID_INPUT|DIVIDE_BY_ZERO") as raised:
            lake.delete("t.n", bad)
        assert "\n" not in raised.value.message
    with pytest.raises(Invalid, match="DIVIDE_BY_ZERO"):
        lake.update("t.n", {"half": "1 / (id - 1)"}, "true")
    with pytest.raises(Invalid, match="chooses other rows each time"):
        lake.delete("t.n", "rand() < 0.5")
    with pytest.raises(ContentNotFound, match=r"there is no table t\.x on main"):
        lake.delete("t.x", "true")


def test_an_update_computes_from_the_row_as_it_was_and_may_move_it_to_another_partition(lake):
    prepare(lake)
    before = files(lake)
    done = lake.update(
        "t.n",
        {"ID": "id + 10", "half": 7, "v": F.concat("v", F.col("id").cast("string"))},
        "id <= 2",
    )
    assert (done.rows, done.files_removed) == (2, 2)
    assert rows(lake) == [
        (3, 1, "old"),
        (4, 0, "old"),
        (5, 1, None),
        (6, None, "old"),
        (11, 7, "old1"),
        (12, 7, "old2"),
    ]
    assert len(before & files(lake)) == 2
    partitions = {
        task.file.partition[0] for task in lake.catalog.load_table("t.n").scan().plan_files()
    }
    assert partitions == {0, 1, 7, None}
    same_for_all(lake, "t.n")


def test_new_values_are_stored_as_spark_stores_them(lake):
    lake.write(
        lake.spark.createDataFrame(
            [(1, 1, 1.5, Decimal("1.50"), "a", date(2025, 1, 2), [1])],
            "id int not null, b long, d double, n decimal(6,2), s string, day date, l array<int>",
        ),
        "t.n",
    )
    values = {
        "id": 7,
        "b": "cast(1.9 as decimal(5,1))",
        "d": "id",
        "n": "1234.567",
        "s": "id",
        "day": F.to_timestamp(F.lit("2025-03-04 10:00:00")),
        "l": "array(1, 2)",
    }
    for ansi in ("true", "false"):
        lake.spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            assert lake.update("t.n", values, "true").rows == 1
            with pytest.raises(Invalid, match="a value does not fit id, which is int: 21474836"):
                lake.update("t.n", {"id": 2**31}, "true")
        finally:
            lake.spark.conf.unset("spark.sql.ansi.enabled")
    (row,) = lake.catalog.load_table("t.n").scan().to_arrow().to_pylist()
    assert row["id"] == 7
    assert (row["b"], row["n"], row["day"]) == (1, Decimal("1234.57"), date(2025, 3, 4))
    assert (row["d"], row["s"], row["l"]) == (7.0, "7", [1, 2])
    lake.update("t.n", {"s": None, "d": "null"}, "true")
    (row,) = lake.catalog.load_table("t.n").scan().to_arrow().to_pylist()
    assert (row["s"], row["d"]) == (None, None)
    refused = {
        "id is int and cannot be set to string": {"id": "'x'"},
        "day of t.n is date and cannot be set to int": {"day": 1},
        "l of t.n is array<int> and cannot be set to array<string>": {"l": "array('a')"},
        "has no column nix to set": {"nix": 1},
        "needs new values by column": {},
        "Spark cannot do": {"s": "nix + 1"},
        "cannot be set|Spark cannot do": {"s": "1 +"},
        "is set twice": {"s": 1, "S": 2},
    }
    head = lake.client.references.get("main").hash
    for message, value in refused.items():
        with pytest.raises(Invalid, match=message.replace("id is", "id of t.n is")):
            # Although no row matches.
            lake.update("t.n", value, "id = -1")
    assert lake.client.references.get("main").hash == head


def test_null_is_refused_in_what_is_required(lake):
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    lake.catalog.create_namespace("t")
    lake.catalog.create_table(
        "t.n",
        Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType())),
    )
    lake.write(numbers(lake, 1).select("id", "v"), "t.n")
    with pytest.raises(Invalid, match=r"NULL in id, which t\.n requires"):
        lake.update("t.n", {"id": None}, "true")
    assert found(lake) == [(1, "x")]


def test_a_job_is_done_once_and_several_tables_are_one_commit(lake):
    prepare(lake)
    lake.write(numbers(lake, 1), "t.m")
    head = len(lake.client.history.log("main", 50).items)
    for done_before in (False, True):
        with lake.writing(job="both") as batch:
            batch.update("t.n", {"v": "concat(v, '!')"}, "id = 1")
            batch.delete("t.m", "id = 1")
        assert [each.was_done_before for each in batch.written] == [done_before] * 2
    assert rows(lake)[0] == (1, 1, "old!")
    assert len(lake.client.history.log("main", 50).items) == head + 1
    assert lake.client.history.log("main", 1).items[0].meta.message == "update t.n; delete t.m"
    with lake.writing() as batch:
        batch.delete("t.n", "id = 100")
        with pytest.raises(Invalid, match="in the batch already"):
            batch.delete("t.n", "id = 2")


@pytest.mark.parametrize("step", ["looked", "matched", "written", "staged"][:: counted(3, 1)])
def test_a_change_is_made_to_what_others_have_left(lake, step):
    prepare(lake)
    others = Once(step, lambda: lake.write(numbers(lake, 7, v="other"), "t.n"))
    done = lake.update("t.n", {"v": "concat(v, '+')"}, "half = 1", job="plus", steps=others)
    assert [row[2] for row in rows(lake) if row[1] == 1] == ["old+", "old+", None, "other+"]
    assert done.rows == 4
    others = Once(step, lambda: lake.update("t.n", {"v": "'kept'"}, "id = 7"))
    assert lake.delete("t.n", "v like '%+'", steps=others).rows == 2
    assert (7, 1, "kept") in rows(lake)


def test_rows_that_another_engine_deleted_stay_deleted_and_are_not_counted(lake):
    lake.write(numbers(lake, 1, 2, 3, v="old").coalesce(1), "t.n")
    table = lake.catalog.load_table("t.n")
    delete_positions(table, {files(lake).pop(): [0]})
    assert lake.update("t.n", {"v": "'new'"}, "id <= 2").rows == 1
    assert found(lake) == [(2, "new"), (3, "old")]
    assert lake.delete("t.n", "id <= 2").rows == 1
    assert found(lake) == [(3, "old")]


def test_in_an_audit_a_change_on_its_branch_is_adopted(lake):
    from lochan.spark.checks import InSet

    prepare(lake)

    def change(v: str) -> None:
        with lake.audited("main", checks=[InSet("t.n", "v", ["old", "new"])]) as audit:
            lake.delete("t.n", "id = 1", branch=audit.branch)
            lake.update("t.n", {"v": f"'{v}'"}, "id = 2", branch=audit.branch)
            audit.adopt()

    with pytest.raises(AuditFailed):
        change("bad")
    assert rows(lake)[0] == (1, 1, "old")
    change("new")
    assert rows(lake)[0] == (2, 0, "new")


def test_files_that_pyiceberg_reads_in_executors_are_changed_too(lake, monkeypatch):
    prepare(lake)
    monkeypatch.setattr("lochan.spark.read.table_reader.find_access", lambda lake, path: "arrow")
    assert lake.delete("t.n", "id + 0 = 1").rows == 1
    assert lake.update("t.n", {"v": "'new'"}, "id = 2").rows == 1
    monkeypatch.undo()
    assert found(lake)[:2] == [(2, "new"), (3, "old")]
