"""Others write the same table at the worst moment: nothing is lost, nothing is done twice.

The other one is called from inside, at a named step, so that the race is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.types import StringType
from pyspark.errors import PySparkException

from lochan.base.errors import Conflict, Invalid, Unknown
from tests.profile import counted
from tests.spark.readers import same_for_all


def numbers(lake, *values: int, v: str = "x"):
    rows = [(value, value % 2, v) for value in values]
    return lake.spark.createDataFrame(rows, "id long, half long, v string")


def found(lake, branch: str = "main") -> list[tuple[int, str]]:
    rows = lake.catalog.at(branch).load_table("t.n").scan().to_arrow().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


class Once:
    """Does something when a step comes for the first time."""

    def __init__(self, step: str, act: Callable[[], object]) -> None:
        self._step = step
        self._act = act
        self.steps: list[str] = []

    def __call__(self, step: str) -> None:
        self.steps.append(step)
        if step == self._step and self.steps.count(step) == 1:
            self._act()


def prepare(lake) -> None:
    lake.write(numbers(lake, 1, 2, v="old"), "t.n", partition_by=["half"])


@pytest.mark.parametrize("step", ["written", "staged"])
def test_an_append_comes_after_another_without_writing_its_data_again(lake, step):
    prepare(lake)
    other = Once(step, lambda: lake.write(numbers(lake, 3, v="other"), "t.n"))
    written = lake.write(numbers(lake, 4, v="ours"), "t.n", steps=other)
    assert found(lake) == [(1, "old"), (2, "old"), (3, "other"), (4, "ours")]
    assert other.steps.count("written") == 1
    assert written.snapshot_id == lake.catalog.load_table("t.n").current_snapshot().snapshot_id
    assert len(same_for_all(lake, "t.n")) == 4


def test_an_overwrite_replaces_what_is_there_at_its_end_if_that_is_asked_for(lake):
    prepare(lake)
    mean = {"on_change": "replace"}
    other = Once("staged", lambda: lake.write(numbers(lake, 3, v="other"), "t.n"))
    lake.write(numbers(lake, 4, v="ours"), "t.n", mode="overwrite", steps=other, **mean)
    assert found(lake) == [(4, "ours")]
    other = Once("staged", lambda: lake.write(numbers(lake, 5, 6, v="other"), "t.n"))
    mean["mode"] = "overwrite_partitions"
    lake.write(numbers(lake, 8, v="ours"), "t.n", steps=other, **mean)
    assert found(lake) == [(5, "other"), (8, "ours")]
    assert other.steps.count("written") == 1


def test_a_merge_is_done_again_on_what_others_have_written(lake):
    prepare(lake)
    other = Once("staged", lambda: lake.write(numbers(lake, 3, 4, v="other"), "t.n"))
    lake.write(numbers(lake, 2, 3, v="ours"), "t.n", mode="merge", keys=["id"], steps=other)
    assert found(lake) == [(1, "old"), (2, "ours"), (3, "ours"), (4, "other")]
    assert (other.steps.count("written"), other.steps.count("merged")) == (1, 2)


def test_two_merges_of_the_same_rows_leave_one_of_each(lake):
    prepare(lake)

    def rival() -> None:
        lake.write(numbers(lake, 2, 9, v="other"), "t.n", mode="merge", keys=["id"])

    other = Once("merged", rival)
    lake.write(numbers(lake, 2, 9, v="ours"), "t.n", mode="merge", keys=["id"], steps=other)
    assert found(lake) == [(1, "old"), (2, "ours"), (9, "ours")]


def test_a_merge_that_is_never_alone_gives_up_with_the_branch_as_others_left_it(lake):
    prepare(lake)
    count = iter(range(100, 200))

    def always(step: str) -> None:
        if step == "merged":
            lake.write(numbers(lake, next(count), v="other"), "t.n")

    with pytest.raises(
        Conflict, match=r"others kept changing t\.n on main; run it again with job="
    ):
        lake.write(numbers(lake, 2, v="ours"), "t.n", mode="merge", keys=["id"], steps=always)
    assert all(v != "ours" for _, v in found(lake))
    assert (2, "old") in found(lake)


def test_both_may_make_the_table(lake):
    by = {"partition_by": ["half"]}
    other = Once("staged", lambda: lake.write(numbers(lake, 3, v="other"), "t.n", **by))
    lake.write(numbers(lake, 4, v="ours"), "t.n", steps=other, **by)
    assert found(lake) == [(3, "other"), (4, "ours")]


def test_a_table_that_is_changed_in_shape_meanwhile_gets_files_of_its_new_shape(lake):
    prepare(lake)

    def widen() -> None:
        table = lake.catalog.load_table("t.n")
        with table.update_schema() as update:
            update.add_column("more", StringType())
        with lake.catalog.load_table("t.n").update_spec() as update:
            update.remove_field("half")

    other = Once("staged", widen)
    lake.write(numbers(lake, 4, v="ours"), "t.n", steps=other)
    assert other.steps.count("written") == 2
    assert found(lake) == [(1, "old"), (2, "old"), (4, "ours")]
    # A new column alone needs no new files.
    other = Once("staged", lambda: add(lake, "again"))
    lake.write(numbers(lake, 5, v="ours"), "t.n", steps=other)
    assert other.steps.count("written") == 1
    assert len(same_for_all(lake, "t.n")) == 4
    with pytest.raises(Invalid, match="v is no column"):
        lake.write(numbers(lake, 6), "t.n", steps=Once("written", lambda: drop(lake, "v")))


def add(lake, name: str) -> None:
    with lake.catalog.load_table("t.n").update_schema() as update:
        update.add_column(name, StringType())


def drop(lake, name: str) -> None:
    table = lake.catalog.load_table("t.n")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column(name, f"{name}_renamed")
    with lake.catalog.load_table("t.n").update_spec() as update:
        update.add_identity("id")


def test_a_table_that_is_dropped_and_made_again_meanwhile_is_another_one(lake):
    prepare(lake)

    def replace() -> None:
        lake.catalog.drop_table("t.n")
        lake.write(numbers(lake, 3, v="other").select("v", "half", "id"), "t.n")

    other = Once("staged", replace)
    lake.write(numbers(lake, 4, v="ours"), "t.n", steps=other)
    assert found(lake) == [(3, "other"), (4, "ours")]
    assert other.steps.count("written") == 2


def test_the_same_job_twice_at_once_is_done_once(lake):
    prepare(lake)
    other = Once("staged", lambda: lake.write(numbers(lake, 4, v="ours"), "t.n", job="same"))
    written = lake.write(numbers(lake, 4, v="ours"), "t.n", job="same", steps=other)
    assert written.was_done_before
    assert found(lake) == [(1, "old"), (2, "old"), (4, "ours")]


@pytest.mark.parametrize(
    "error", [PySparkException("no"), ValueError("no"), OSError("no")][: counted(1, 3)]
)
def test_after_a_lost_reply_no_error_looks_as_if_nothing_was_written(lake, error):
    prepare(lake)
    seen: list[str] = []

    def broken(step: str) -> None:
        seen.append(step)
        if step == "committed":
            raise CommitStateUnknownException("the reply was lost")
        if seen.count("staged") == 2:
            raise error

    message = r"whether t\.n was written to main is unknown; run it again with job='lost'"
    with pytest.raises(Unknown, match=message) as raised:
        lake.write(numbers(lake, 4, v="ours"), "t.n", job="lost", steps=broken)
    assert raised.value.__cause__ is error
    assert lake.write(numbers(lake, 4, v="ours"), "t.n", job="lost").was_done_before
    assert found(lake) == [(1, "old"), (2, "old"), (4, "ours")]


def test_an_error_before_any_reply_was_lost_is_told_as_it_is(lake):
    prepare(lake)

    def broken(step: str) -> None:
        if step == "staged":
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        lake.write(numbers(lake, 4, v="ours"), "t.n", steps=broken)
    assert found(lake) == [(1, "old"), (2, "old")]


def test_in_a_batch_one_table_that_moved_holds_up_all_and_no_other(lake):
    prepare(lake)
    other = Once("staged", lambda: lake.write(numbers(lake, 3, v="other"), "t.n"))
    from lochan.spark.write.batch import Batch

    with Batch(lake, branch="main", steps=other) as batch:
        batch.write(numbers(lake, 4, v="ours"), "t.n")
        batch.write(lake.spark.range(3), "t.numbers")
    assert len({each.commit for each in batch.written}) == 1
    assert found(lake) == [(1, "old"), (2, "old"), (3, "other"), (4, "ours")]
    assert len(lake.client.history.log("main", 10).items) == 3
