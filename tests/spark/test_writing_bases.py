"""What a write may replace: rows as its frame has read them, or as they were at the call.

Others write at a named step of ours, so that every run is the same.
"""

from __future__ import annotations

import re

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Conflict, Invalid
from lochan.spark.provenance import find_table_reads
from tests.profile import counted
from tests.spark.delete_files import delete_positions
from tests.spark.test_writing_races import Once, found, numbers, prepare


def conflict_of(lake, act) -> str:
    """Returns the message of a Conflict, which names the last commit and writes nothing."""
    with pytest.raises(Conflict) as raised:
        act()
    head = lake.client.references.get("main").hash
    message = raised.value.message
    assert f"by commit {head} (" in message
    assert 'Read the table again and run it again, or write with on_change="replace"' in message
    return message


def test_rows_that_came_after_the_read_are_not_wiped_by_an_overwrite(lake):
    prepare(lake)
    kept = lake.read("t.n").where("id > 1")
    lake.write(numbers(lake, 3, v="other"), "t.n", message="the late orders")
    message = conflict_of(lake, lambda: lake.write(kept, "t.n", mode="overwrite"))
    assert "t.n on main was changed" in message
    assert "'the late orders'" in message
    assert "after the frame read it; nothing was written" in message
    assert found(lake) == [(1, "old"), (2, "old"), (3, "other")]
    # What the message proposes: read again, or replace on purpose.
    lake.write(lake.read("t.n").where("id > 1"), "t.n", mode="overwrite")
    assert found(lake) == [(2, "old"), (3, "other")]
    lake.write(kept, "t.n", mode="overwrite", on_change="replace")
    assert found(lake) == [(2, "old")]


@pytest.mark.parametrize("step", ["looked", "written", "staged"][: counted(1, 3)])
def test_rows_that_come_while_a_frame_is_written_are_not_wiped(lake, step):
    prepare(lake)
    other = Once(step, lambda: lake.write(numbers(lake, 3, v="other"), "t.n"))
    ours = numbers(lake, 4, v="ours")
    message = conflict_of(
        lake, lambda: lake.write(ours, "t.n", mode="overwrite", job="ours", steps=other)
    )
    assert "after this write began" in message
    assert found(lake) == [(1, "old"), (2, "old"), (3, "other")]
    lake.write(ours, "t.n", mode="overwrite", job="ours")
    assert found(lake) == [(4, "ours")]


def test_a_partition_that_others_did_not_touch_is_replaced_and_one_that_they_did_is_not(lake):
    prepare(lake)
    even = lake.read("t.n").where("half = 0").withColumn("v", F.lit("ours"))
    lake.write(numbers(lake, 3, v="other"), "t.n")
    lake.write(even, "t.n", mode="overwrite_partitions")
    assert found(lake) == [(1, "old"), (2, "ours"), (3, "other")]
    lake.write(numbers(lake, 4, v="other"), "t.n")
    conflict_of(lake, lambda: lake.write(even, "t.n", mode="overwrite_partitions"))
    assert found(lake) == [(1, "old"), (2, "ours"), (3, "other"), (4, "other")]
    lake.write(even, "t.n", mode="overwrite_partitions", on_change="replace")
    assert found(lake)[0] == (1, "old")
    assert (4, "other") not in found(lake)


def test_a_merge_of_rows_that_were_read_and_then_changed_is_a_conflict(lake):
    """Read a balance, add to it, merge it: what another run added meanwhile must not be lost."""
    prepare(lake)
    more = lake.read("t.n").where("id = 2").withColumn("v", F.concat("v", F.lit("+1")))

    def merge(**options):
        lake.write(more, "t.n", mode="merge", keys=["id"], **options)

    # Rows with other keys do not stand against it.
    lake.write(numbers(lake, 3, v="other"), "t.n")
    merge()
    assert found(lake) == [(1, "old"), (2, "old+1"), (3, "other")]
    # This one reads what it has replaced itself: to add 1 again would lose the first.
    conflict_of(lake, merge)
    # A row with the same key that is new is a change of what was read, too: there was none.
    nine = lake.read("t.n").where("id = 3").withColumn("id", F.lit(9).cast("long"))
    lake.write(numbers(lake, 9, v="other"), "t.n")
    conflict_of(lake, lambda: lake.write(nine, "t.n", mode="merge", keys=["id"]))
    # A merge that does not read the table replaces what is there.
    lake.write(numbers(lake, 2, 9, v="blind"), "t.n", mode="merge", keys=["id"])
    assert found(lake) == [(1, "old"), (2, "blind"), (3, "other"), (9, "blind")]
    merge(on_change="replace")
    assert (2, "old+1") in found(lake)


def test_what_a_frame_reads_is_found_whatever_was_done_to_it(lake):
    prepare(lake)
    lake.write(numbers(lake, 7), "t.other")
    spark = lake.spark
    frame = lake.read("t.n")
    frame.createOrReplaceTempView("bases_view")
    cached = lake.read("t.n", where="id = 1").cache()
    assert cached.count() == 1
    plain = numbers(lake, 9)
    reading = {
        "the frame": frame,
        "a column": lake.read("t.n", columns=["id"]),
        "no file": lake.read("t.n", where="id > 1000"),
        "no row": frame.where("1 = 0"),
        "twice a column": frame.select("id", "id"),
        "an aggregate": frame.groupBy("half").count(),
        "a join": plain.join(frame, "id"),
        "a union": plain.union(frame),
        "a cached one": cached.select("v"),
        "SQL": spark.sql("with a as (select * from bases_view) select max(id) m from a"),
        "a subquery": plain.where("id in (select id from bases_view)"),
        "a scalar": spark.sql("select (select max(id) from bases_view) m"),
        "Python": frame.mapInArrow(lambda batches: batches, frame.schema),
    }
    expected = find_table_reads(frame)
    assert len(expected) == 1
    for name, each in reading.items():
        assert find_table_reads(each) == expected, name
    assert not find_table_reads(plain)
    assert len(find_table_reads(frame.union(lake.read("t.other")))) == 2
    assert not find_table_reads(frame.localCheckpoint())
    assert cached.is_cached
    assert "InMemoryRelation" in cached._jdf.queryExecution().optimizedPlan().toString()
    cached.unpersist()


def test_a_mark_costs_nothing_and_hides_nothing(lake):
    prepare(lake)
    frame = lake.read("t.n")
    plan = frame._jdf.queryExecution()
    assert "lochan-read" in plan.analyzed().toString()
    assert "lochan-read" not in plan.optimizedPlan().toString()
    assert frame.select("_metadata.file_path").distinct().count() == 2


def test_a_session_that_hides_its_plans_is_told_so(lake):
    prepare(lake)
    frame = lake.read("t.n")
    for name, value in (
        ("spark.sql.maxPlanStringLength", "40"),
        ("spark.sql.redaction.string.regex", "[0-9a-f]{16}"),
    ):
        lake.spark.conf.set(name, value)
        try:
            with pytest.raises(Invalid, match="cuts or hides the text of plans"):
                lake.write(frame, "t.n", mode="overwrite")
        finally:
            lake.spark.conf.unset(name)
    assert found(lake) == [(1, "old"), (2, "old")]


def test_a_table_that_was_empty_when_it_was_read_and_a_filter_without_files(lake):
    lake.write(numbers(lake), "t.n", partition_by=["half"])
    nothing = lake.read("t.n")
    lake.write(numbers(lake, 1, v="other"), "t.n")
    conflict_of(lake, lambda: lake.write(nothing, "t.n", mode="overwrite"))
    none = lake.read("t.n", where="id > 1000")
    lake.write(numbers(lake, 2, v="other"), "t.n")
    conflict_of(lake, lambda: lake.write(none, "t.n", mode="overwrite"))
    assert found(lake) == [(1, "other"), (2, "other")]
    lake.write(lake.read("t.n", where="id > 1000"), "t.n", mode="overwrite")
    assert found(lake) == []


def test_files_that_pyiceberg_reads_in_executors_are_known_too(lake, monkeypatch):
    prepare(lake)
    with monkeypatch.context() as patch:
        patch.setattr("lochan.spark.read.table_reader.find_access", lambda lake, path: "arrow")
        frame = lake.read("t.n")
    assert not frame.inputFiles()
    lake.write(numbers(lake, 3, v="other"), "t.n")
    conflict_of(lake, lambda: lake.write(frame, "t.n", mode="overwrite"))


def test_rows_that_another_engine_deletes_do_not_come_back(lake):
    lake.write(numbers(lake, 1, 2, 3, v="old").coalesce(1), "t.n")
    frame = lake.read("t.n")
    table = lake.catalog.load_table("t.n")
    (file,) = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, {file: [0]})
    for mode in ("overwrite", "overwrite_partitions", "merge"):
        keys = ["id"] if mode == "merge" else []
        conflict_of(
            lake, lambda mode=mode, keys=keys: lake.write(frame, "t.n", mode=mode, keys=keys)
        )
    assert found(lake) == [(2, "old"), (3, "old")]


def test_ordinary_flows_are_no_conflicts(lake):
    prepare(lake)
    # Read, change, write, again and again, each time from what is there.
    for _ in range(2):
        frame = lake.read("t.n").withColumn("v", F.concat("v", F.lit("!")))
        lake.write(frame, "t.n", mode="overwrite")
    assert found(lake) == [(1, "old!!"), (2, "old!!")]
    # Read one table and write another, whatever becomes of the first one.
    frame = lake.read("t.n")
    lake.write(numbers(lake, 3), "t.n")
    for _ in range(2):
        lake.write(frame, "t.copy", mode="overwrite")
    # One frame of all, written partition by partition.
    whole = lake.read("t.n")
    for half in (0, 1):
        part = whole.where(F.col("half") == half).withColumn("v", F.lit(f"p{half}"))
        lake.write(part, "t.n", mode="overwrite_partitions")
    assert found(lake) == [(1, "p1"), (2, "p0"), (3, "p1")]
    # Batches that are merged one after the other, from elsewhere.
    for v in ("a", "b"):
        lake.write(numbers(lake, 2, 5, v=v), "t.n", mode="merge", keys=["id"])
    assert found(lake) == [(1, "p1"), (2, "b"), (3, "p1"), (5, "b")]
    # Appending what was read is never a conflict.
    lake.write(whole, "t.n")
    assert len(found(lake)) == 7


def test_other_branches_tags_and_older_states(lake):
    prepare(lake)
    lake.client.references.create("etl")
    lake.write(numbers(lake, 3, v="etl"), "t.n", branch="etl")
    # The other branch has all that is here, and more.
    lake.write(lake.read("t.n", ref="etl"), "t.n", mode="overwrite")
    assert found(lake) == [(1, "old"), (2, "old"), (3, "etl")]
    lake.write(numbers(lake, 4, v="other"), "t.n")
    with pytest.raises(Conflict, match=r"t\.n on main has changes that are not there; nothing"):
        lake.write(lake.read("t.n", ref="etl"), "t.n", mode="overwrite")
    # An older state is put back only on request.
    before = lake.read("t.n", ref="main~1")
    conflict_of(lake, lambda: lake.write(before, "t.n", mode="overwrite"))
    # Beside the present one it may be read.
    both = lake.read("t.n").join(before.select("id"), "id", "left_anti")
    lake.write(both, "t.n", mode="overwrite")
    assert found(lake) == [(4, "other")]
    lake.write(before, "t.n", mode="overwrite", on_change="replace")
    assert found(lake) == [(1, "old"), (2, "old"), (3, "etl")]
    # A table that is missing on the branch can be made from another branch.
    lake.client.references.create("bare")
    lake.catalog.at("bare").drop_table("t.n")
    lake.write(lake.read("t.n"), "t.n", branch="bare", mode="overwrite")
    assert len(found(lake, "bare")) == 3


def test_a_branch_that_was_set_back_after_the_read_does_not_get_back_what_it_lost(lake):
    prepare(lake)
    good = lake.client.references.get("main")
    lake.write(numbers(lake, 3, v="bad"), "t.n")
    frame = lake.read("t.n")
    lake.client.references.assign("main", good.hash)
    with pytest.raises(Conflict, match="after the frame read it"):
        lake.write(frame, "t.n", mode="overwrite")
    assert found(lake) == [(1, "old"), (2, "old")]


def test_a_table_that_is_dropped_or_made_again_meanwhile_is_not_replaced(lake):
    prepare(lake)
    frame = lake.read("t.n")
    ours = numbers(lake, 4, v="ours")
    drop = Once("staged", lambda: lake.catalog.drop_table("t.n"))
    conflict_of(lake, lambda: lake.write(ours, "t.n", mode="overwrite", steps=drop))
    conflict_of(lake, lambda: lake.write(frame, "t.n", mode="overwrite"))
    make = Once("staged", lambda: lake.write(numbers(lake, 5, v="other"), "t.n"))
    conflict_of(lake, lambda: lake.write(ours, "t.n", mode="overwrite", steps=make))
    conflict_of(lake, lambda: lake.write(frame, "t.n", mode="overwrite"))
    assert found(lake) == [(5, "other")]


def test_a_table_whose_partitions_or_snapshots_change_meanwhile_loses_nothing(lake):
    prepare(lake)
    ours = numbers(lake, 4, v="ours")

    def evolve() -> None:
        with lake.catalog.load_table("t.n").update_spec() as update:
            update.remove_field("half")

    # Nothing was written in between, so there is nothing to lose.
    lake.write(ours, "t.n", mode="overwrite", steps=Once("staged", evolve))
    assert found(lake) == [(4, "ours")]
    frame = lake.read("t.n")
    old = lake.catalog.load_table("t.n").current_snapshot().snapshot_id
    lake.write(numbers(lake, 5, v="other"), "t.n")
    lake.catalog.load_table("t.n").maintenance.expire_snapshots().by_id(old).commit()
    for mode in ("overwrite", "overwrite_partitions"):
        conflict_of(lake, lambda mode=mode: lake.write(frame, "t.n", mode=mode))
    assert found(lake) == [(4, "ours"), (5, "other")]


def test_in_a_batch_each_table_has_the_base_of_its_own_call(lake):
    prepare(lake)
    with lake.writing() as batch:
        batch.write(numbers(lake, 4, v="ours"), "t.n", mode="overwrite")
        batch.write(numbers(lake, 1), "t.other", mode="overwrite")

    def late() -> None:
        with lake.writing() as batch:
            batch.write(numbers(lake, 5, v="ours"), "t.n", mode="overwrite")
            lake.write(numbers(lake, 6, v="other"), "t.n")
            batch.write(numbers(lake, 2), "t.other", mode="overwrite")

    assert "after this write began" in conflict_of(lake, late)
    assert found(lake) == [(4, "ours"), (6, "other")]
    assert lake.read("t.other").count() == 1


def test_an_audit_replaces_what_it_has_read(lake):
    from lochan.spark.checks import NotNull

    prepare(lake)
    with lake.audited("main", checks=[NotNull("t.n", ["id"])]) as audit:
        audit.write(lake.read("t.n").where("id > 1"), "t.n", mode="overwrite")
        stale = audit.read("t.n")
        audit.write(numbers(lake, 3, v="audit"), "t.n")
        with pytest.raises(Conflict, match="after the frame read it"):
            audit.write(stale, "t.n", mode="overwrite")
        audit.write(audit.read("t.n").where("id > 2"), "t.n", mode="overwrite")
    assert found(lake) == [(3, "audit")]


def test_on_change_is_one_of_two_words(lake):
    with pytest.raises(Invalid, match=re.escape("on_change is one of conflict, replace, not 'x'")):
        lake.write(numbers(lake, 1), "t.n", on_change="x")
