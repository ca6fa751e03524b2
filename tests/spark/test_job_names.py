"""A job writes once: after snapshots have expired, behind merges, and with two drivers at once."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from lochan.base.errors import Conflict, InvalidKey
from lochan.base.limits.contents import JOB_BYTES_MAX
from lochan.spark.write.jobs import JobFacts, is_in_table
from tests.profile import counted
from tests.spark.readers import by_frame, by_pyiceberg, same_for_all

FOUR = ((1, "a", "Oslo"), (2, "b", "Oslo"), (3, "c", "Rome"), (4, "d", None))
TABLE = "t.people"


def people(lake, *rows: tuple):
    return lake.spark.createDataFrame(rows, "id long, name string, city string")


def expire_all(lake, branch: str = "main") -> None:
    """Expires every snapshot but the present one, as any engine may."""
    table = lake.catalog.at(branch).load_table(TABLE)
    present = table.metadata.current_snapshot_id
    expired = table.maintenance.expire_snapshots()
    for each in table.metadata.snapshots:
        if each.snapshot_id != present:
            expired = expired.by_id(each.snapshot_id)
    expired.commit()


def test_a_job_is_done_once(lake):
    first = lake.write(people(lake, *FOUR), TABLE, job="daily")
    lake.write(people(lake, (5, "e", "Bern")), TABLE, job="other")
    again = lake.write(people(lake, *FOUR), TABLE, job="daily")
    assert again.was_done_before
    assert (again.rows, again.files, again.bytes) == (first.rows, first.files, first.bytes)
    head = lake.client.references.get("main").hash
    assert (again.snapshot_id, again.commit) == (first.snapshot_id, head)
    assert len(by_pyiceberg(lake, TABLE)) == 5
    assert len(lake.client.history.log("main", 100).items) == 2


def test_a_job_is_known_after_its_snapshot_has_expired(lake):
    first = lake.write(people(lake, *FOUR), TABLE, job="daily")
    lake.write(people(lake, (5, "e", "Bern")), TABLE, job="other")
    expire_all(lake)
    again = lake.write(people(lake, *FOUR), TABLE, job="daily")
    assert (again.was_done_before, again.rows) == (True, first.rows)
    assert len(by_pyiceberg(lake, TABLE)) == 5


def test_a_job_that_came_by_a_merge_is_known_after_expiry_too(lake):
    lake.write(people(lake, (9, "z", "Bonn")), TABLE, job="first")
    lake.client.references.create("etl", "main")
    lake.write(people(lake, *FOUR), TABLE, branch="etl", job="daily")
    lake.write(lake.spark.range(3), "t.other")
    lake.client.merges.merge("main", "etl")
    lake.write(people(lake, (5, "e", "Bern")), TABLE, job="more")
    expire_all(lake)
    assert lake.write(people(lake, *FOUR), TABLE, job="daily").was_done_before
    assert len(by_pyiceberg(lake, TABLE)) == 6


def test_a_job_that_was_rolled_back_in_the_table_is_done_again(lake):
    first = lake.write(people(lake, *FOUR), TABLE, job="first")
    lake.write(people(lake, (5, "bad", "Bern")), TABLE, job="daily")
    table = lake.catalog.load_table(TABLE)
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    again = lake.write(people(lake, (5, "e", "Bern")), TABLE, job="daily")
    assert not again.was_done_before
    expected = people(lake, *FOUR, (5, "e", "Bern"))
    assert same_for_all(lake, TABLE) == by_frame(expected)
    assert lake.write(people(lake, *FOUR), TABLE, job="first").was_done_before
    assert lake.write(people(lake, (5, "e", "Bern")), TABLE, job="daily").was_done_before


@pytest.mark.parametrize("way", ["revert", "assign"])
def test_a_job_that_was_taken_back_on_the_branch_is_done_again(lake, way):
    first = lake.write(people(lake, *FOUR), TABLE, job="first")
    second = lake.write(people(lake, (5, "e", "Bern")), TABLE, job="daily")
    if way == "revert":
        lake.client.merges.revert("main", [second.commit])
    else:
        lake.client.references.assign("main", f"main@{first.commit}")
    again = lake.write(people(lake, (5, "e", "Bern")), TABLE, job="daily")
    assert not again.was_done_before
    assert len(by_pyiceberg(lake, TABLE)) == 5


def test_a_job_with_other_rows_columns_or_mode_is_an_error_and_changes_nothing(lake):
    lake.write(people(lake, *FOUR), TABLE, job="daily")
    head = lake.client.references.get("main").hash
    with pytest.raises(Conflict, match=r"rows 4 then and 3 now.*Nothing is written"):
        lake.write(people(lake, *FOUR[:3]), TABLE, job="daily")
    with pytest.raises(Conflict, match=r"columns .* now"):
        lake.write(people(lake, *FOUR).drop("city"), TABLE, job="daily")
    with pytest.raises(Conflict, match="mode append then and overwrite now"):
        lake.write(people(lake, *FOUR), TABLE, mode="overwrite", job="daily")
    assert lake.client.references.get("main").hash == head
    reordered = people(lake, *FOUR).select("city", "name", "id")
    assert lake.write(reordered, TABLE, job="daily").was_done_before


def test_a_job_that_reads_the_table_it_writes_is_done_once_although_it_has_other_rows_now(lake):
    lake.write(people(lake, *FOUR), TABLE)
    for is_done in (False, True):
        twice = lake.read(TABLE).union(people(lake, (5, "e", "Bern")))
        done = lake.write(twice, TABLE, mode="overwrite", job="add")
        assert done.was_done_before is is_done
    assert len(by_pyiceberg(lake, TABLE)) == 5


def test_a_delete_and_an_update_are_done_once_and_other_ones_are_refused(lake):
    lake.write(people(lake, *FOUR), TABLE)
    for is_done in (False, True):
        assert lake.delete(TABLE, "id = 1", job="purge").was_done_before is is_done
        done = lake.update(TABLE, {"id": "id + 10"}, "id < 10", job="move")
        assert done.was_done_before is is_done
    lake.write(people(lake, (1, "new", None)), TABLE)
    assert lake.delete(TABLE, "id = 1", job="purge").was_done_before
    with pytest.raises(Conflict, match=r"has written t\.people before, and not the same"):
        lake.delete(TABLE, "id = 2", job="purge")
    assert lake.delete(TABLE, "id = 99", job="nothing").rows == 0
    assert not lake.delete(TABLE, "id = 99", job="nothing").was_done_before
    assert sorted(row.id for row in lake.read(TABLE).collect()) == [1, 12, 13, 14]


@pytest.mark.parametrize("step", ["looked", "written", "staged"][: counted(1, 3)])
def test_of_two_drivers_with_one_job_one_writes(lake, step):
    lake.write(people(lake, (9, "z", "Bonn")), TABLE)
    others = []

    def meanwhile(done: str) -> None:
        if done == step and not others:
            others.append(lake.write(people(lake, *FOUR), TABLE, job="daily"))

    ours = lake.write(people(lake, *FOUR), TABLE, branch="main", job="daily", steps=meanwhile)
    assert not others[0].was_done_before
    assert ours.was_done_before
    assert len(by_pyiceberg(lake, TABLE)) == 5


def test_of_two_drivers_with_one_job_and_other_rows_the_second_fails(lake):
    others = []

    def meanwhile(done: str) -> None:
        if done == "written" and not others:
            others.append(lake.write(people(lake, *FOUR), TABLE, job="daily"))

    with pytest.raises(Conflict, match="rows 4 then and 2 now"):
        lake.write(people(lake, *FOUR[:2]), TABLE, branch="main", job="daily", steps=meanwhile)
    assert same_for_all(lake, TABLE) == by_frame(people(lake, *FOUR))


def test_names_that_no_commit_can_record_are_refused_before_anything_is_written(lake):
    for job in ("a\nb", "é" * (JOB_BYTES_MAX // 2 + 1)):
        with pytest.raises(InvalidKey):
            lake.write(people(lake, *FOUR), TABLE, job=job)
    assert not lake.client.contents.entries("main").items


def snapshot(number: int, parent: int | None, order: int) -> Snapshot:
    made = {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "sequence-number": order,
        "timestamp-ms": order,
        "manifest-list": "",
    }
    return Snapshot.model_validate(made)


def metadata_of(current: int | None, *snapshots: Snapshot) -> TableMetadata:
    plain = Schema(NestedField(1, "n", LongType()))
    metadata = new_table_metadata(plain, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t")
    changed = {"snapshots": list(snapshots), "current_snapshot_id": current}
    return metadata.model_copy(update=changed)


def facts(number: int) -> JobFacts:
    return JobFacts(
        mode="append",
        columns="",
        rows=1,
        files=1,
        bytes=1,
        snapshot=number,
        sequence=number,
        time_ms=number,
    )


def test_the_table_tells_what_was_rolled_back_unless_it_has_forgotten():
    # Of 1, 2 (expired), 3 and 5 the table is made; 4 was rolled back.
    every = [snapshot(1, None, 1), snapshot(3, 2, 3), snapshot(4, 3, 4), snapshot(5, 3, 5)]
    made = metadata_of(5, *every)
    counts = {number: is_in_table(made, facts(number)) for number in range(1, 7)}
    assert counts == {1: True, 2: True, 3: True, 4: False, 5: True, 6: False}
    # What was rolled back, and has expired since, is not in a line that is whole.
    assert not is_in_table(metadata_of(5, *every[:2], every[3]), facts(4))
    assert not is_in_table(metadata_of(None), facts(1))
