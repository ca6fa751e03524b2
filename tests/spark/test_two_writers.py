"""Two drivers change one table: every operation beside every other one, at every step of the first.

The second driver commits inside a step of the first, so that every run is the same. What must be
there in the end is computed by a plain model of rows: nothing is lost, nothing is there twice. A
Conflict must name the commit of the second driver, and may only come where the table below has one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import Conflict
from lochan.spark.lake import Lake
from tests.profile import PROFILE, counted

TABLE = "t.n"
SCHEMA = "id long, half long, v string"

Row = tuple[int, int, str]
Rows = list[Row]

FIRST_ROWS: Rows = [(1, 1, "a"), (2, 0, "a"), (3, 1, "a"), (4, 0, "a")]


class Act(msgspec.Struct, frozen=True):
    """One operation: on which partition, and a tag that its rows carry."""

    kind: str
    half: int
    tag: str

    @property
    def is_reading(self) -> bool:
        """Returns whether it writes what it has computed from rows that it read before."""
        return self.kind.endswith("_read")

    @property
    def steps(self) -> list[str]:
        """The steps at which the other driver may come; `read` is before the write."""
        named = ["looked", "written", "staged"]
        if self.kind.startswith("merge"):
            named.insert(2, "merged")
        if self.kind in ("delete", "update"):
            named.insert(1, "matched")
        return [*(["read"] if self.is_reading else []), *named]

    def rows(self) -> Rows:
        """Returns rows from elsewhere: a new one, and one whose key is there."""
        number = 10 + sum(self.tag.encode()) % 1_000
        new = (number * 2 + self.half, self.half, self.tag)
        return [new] if self.kind == "append" else [new, (4 - self.half, self.half, self.tag)]


KINDS = ("append", "overwrite", "overwrite_partitions", "merge", "delete", "update")
READING = ("overwrite_read", "overwrite_partitions_read", "merge_read")


def touched(rows: Rows, act: Act) -> Rows:
    """Returns what an act that reads writes: its partition with the tag, or all rows with it."""
    chosen = [row for row in rows if act.kind == "overwrite_read" or row[1] == act.half]
    return [(number, half, v + act.tag) for number, half, v in chosen]


def after(now: Rows, read: Rows, act: Act) -> Rows:
    """Returns the rows after an act that met some rows and had read others: the plain model."""
    given = touched(read, act) if act.is_reading else act.rows()
    match act.kind.removesuffix("_read"):
        case "append":
            return [*now, *given]
        case "overwrite":
            return given
        case "overwrite_partitions":
            halves = {half for _, half, _ in given}
            return [*(row for row in now if row[1] not in halves), *given]
        case "merge":
            keys = {number for number, _, _ in given}
            return [*(row for row in now if row[0] not in keys), *given]
        case "delete":
            return [row for row in now if not (row[1] == act.half and row[0] <= 2)]
        case _:
            return [(n, half, v + act.tag if half == act.half else v) for n, half, v in now]


def must_conflict(first: Act, second: Act) -> bool:
    """Returns what the first must do when the second came in between."""
    is_same = first.half == second.half or second.kind == "overwrite"
    match first.kind:
        case "overwrite" | "overwrite_read":
            return True
        case "overwrite_partitions" | "overwrite_partitions_read":
            return is_same
        case "merge_read":
            # New rows with other keys do not disturb it; whatever removes a file does.
            return second.kind != "append"
        case _:
            return False


class Driver:
    """Does acts by a lake of its own."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def frame(self, act: Act, branch: str) -> Any:
        if not act.is_reading:
            return self.lake.spark.createDataFrame(act.rows(), SCHEMA).coalesce(1)
        frame = self.lake.read(TABLE, ref=branch)
        if act.kind != "overwrite_read":
            frame = frame.where(F.col("half") == act.half)
        return frame.withColumn("v", F.concat("v", F.lit(act.tag)))

    def do(self, act: Act, branch: str, frame: Any = None, steps: Any = None) -> Any:
        lake: Any = self.lake
        options = {"branch": branch, "steps": steps}
        if act.kind == "delete":
            return lake.delete(TABLE, f"half = {act.half} and id <= 2", **options)
        if act.kind == "update":
            change = {"v": f"concat(v, '{act.tag}')"}
            return lake.update(TABLE, change, f"half = {act.half}", **options)
        mode = act.kind.removesuffix("_read")
        keys = ["id"] if mode == "merge" else []
        frame = self.frame(act, branch) if frame is None else frame
        return lake.write(frame, TABLE, mode=mode, keys=keys, **options)


@pytest.fixture
def drivers(spark, server, tmp_path):
    """Two drivers on one repository, whose branch `main` has a table in two partitions."""
    place = str(tmp_path / "warehouse")
    with Lake(spark, server, warehouse=place) as one, Lake(spark, server, warehouse=place) as two:
        rows = spark.createDataFrame(FIRST_ROWS, SCHEMA).coalesce(1)
        one.write(rows, TABLE, partition_by=["half"])
        yield Driver(one), Driver(two)


def stored(lake: Lake, branch: str) -> Rows:
    rows = lake.catalog.at(branch).load_table(TABLE).scan().to_arrow().to_pylist()
    return sorted((row["id"], row["half"], row["v"]) for row in rows)


def commits(lake: Lake, branch: str) -> int:
    return sum(1 for _ in lake.client.history.iterate(branch))


def is_commit(act: Act, before: Rows, now: Rows) -> bool:
    """Returns whether an act makes a commit; a delete or update of no row makes none."""
    return act.kind not in ("delete", "update") or before != now


def at_step(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    waiting = [act]

    def steps(now: str) -> None:
        if now == step and waiting:
            waiting.pop()()

    return steps


def check_pair(
    drivers: tuple[Driver, Driver], number: int, first: Act, second: Act, step: str
) -> None:
    """Lets the second driver commit at a step of the first, on a branch of their own."""
    one, two = drivers
    branch, about = f"case-{number}", (first, second, step)
    one.lake.client.references.create(branch)
    before = commits(one.lake, branch)
    done: list[Any] = []

    def rival() -> None:
        done.append(two.do(second, branch))

    between = sorted(after(FIRST_ROWS, FIRST_ROWS, second))
    frame = one.frame(first, branch) if first.is_reading else None
    if step == "read":
        rival()
    message = ""
    try:
        one.do(first, branch, frame, at_step(step, rival))
    except Conflict as error:
        message = error.message
    assert done, about
    assert bool(message) == must_conflict(first, second), about
    if message:
        assert f"by commit {done[0].commit} (" in message, about
        expected, made = between, 1
    else:
        expected = sorted(after(between, FIRST_ROWS, first))
        made = 1 + is_commit(first, between, expected)
    assert stored(one.lake, branch) == expected, about
    assert commits(one.lake, branch) == before + made, about


def pairs_of(kind: str) -> list[tuple[Act, Act, str]]:
    first = Act(kind, 1, "+")
    found = [
        (first, Act(other, half, "*"), step)
        for other, half, step in product(KINDS, (1, 0), first.steps)
    ]
    if PROFILE == "deep":
        return found
    # One of each kind, with rival, partition and step in turn, so that all of them come.
    return [found[((*KINDS, *READING).index(kind) * 9 + 1) % len(found)]]


@pytest.mark.parametrize("kind", [*KINDS, *READING])
def test_two_writers_lose_nothing_and_do_nothing_twice(drivers, kind):
    for number, (first, second, step) in enumerate(pairs_of(kind)):
        check_pair(drivers, number, first, second, step)


def test_the_pairs_of_all_kinds_and_steps_are_many():
    """The deep profile runs them all; the default one a part that has every kind on either side."""
    every = [pair for kind in (*KINDS, *READING) for pair in pairs_of(kind)]
    assert {first.kind for first, _, _ in every} == {*KINDS, *READING}
    assert {second.kind for _, second, _ in every} == set(KINDS)
    assert {second.half for _, second, _ in every} == {0, 1}
    expected = {"read", "looked", "matched", "written", "merged", "staged"}
    assert {step for _, _, step in every} == expected
    assert len(every) == counted(9, 408)


class Held(msgspec.Struct, frozen=True):
    """A frame that a driver has read and not yet written, and the rows that it read."""

    act: Act
    frame: Any
    rows: Rows
    at: int


class Walk:
    """Two drivers at random, each act with its result by the model."""

    def __init__(self, drivers: tuple[Driver, Driver], seed: int) -> None:
        self.drivers = drivers
        self.random = Random(seed)
        self.branch = f"walk-{seed}"
        self.rows = sorted(FIRST_ROWS)
        self.held: list[Held | None] = [None, None]
        self.tags = (chr(0x4E00 + number) for number in range(10_000))
        self.moves = 0
        self.conflicts = 0
        drivers[0].lake.client.references.create(self.branch)

    def step(self) -> None:
        which = self.random.randrange(2)
        kind = self.random.choice((*KINDS, *READING, "hold"))
        act = Act(kind, self.random.randrange(2), next(self.tags))
        if kind == "hold":
            act = msgspec.structs.replace(act, kind=self.random.choice(READING))
            frame = self.drivers[which].frame(act, self.branch)
            self.held[which] = Held(act, frame, self.rows, self.moves)
            return
        held = self.held[which]
        if held is not None and self.random.random() < 0.5:
            self.held[which] = None
            self.write(which, held.act, held)
        else:
            self.write(which, act, None)

    def write(self, which: int, act: Act, held: Held | None) -> None:
        """Lets one driver write, and perhaps the other one in the midst of that."""
        read, began = (self.rows, self.moves) if held is None else (held.rows, held.at)
        frame = None if held is None else held.frame
        rival = Act(self.random.choice(KINDS), self.random.randrange(2), next(self.tags))
        step = self.random.choice(act.steps) if self.random.random() < 0.4 else ""
        interrupt = at_step(step, lambda: self.apply(1 - which, rival))
        try:
            self.drivers[which].do(act, self.branch, frame, interrupt)
        except Conflict:
            # Never without a cause: something must have been changed since.
            assert self.moves > began, act
            assert act.is_reading or act.kind.startswith("overwrite"), act
            self.conflicts += 1
        else:
            self.check_seen(act, read)
            self.move(act, sorted(after(self.rows, read, act)))
        assert stored(self.drivers[0].lake, self.branch) == self.rows, act

    def check_seen(self, act: Act, read: Rows) -> None:
        """Looks that what an act has replaced is what it had read, or what its call has met."""
        mine = [row for row in read if row[1] == act.half]
        match act.kind.removesuffix("_read"):
            case "overwrite":
                assert read == self.rows, act
            case "overwrite_partitions" if mine or not act.is_reading:
                assert mine == [row for row in self.rows if row[1] == act.half], act
            case "merge" if act.is_reading:
                keys = {row[0] for row in mine}
                assert mine == [row for row in self.rows if row[0] in keys], act

    def apply(self, which: int, act: Act) -> None:
        self.drivers[which].do(act, self.branch)
        self.move(act, sorted(after(self.rows, self.rows, act)))

    def move(self, act: Act, rows: Rows) -> None:
        self.moves += is_commit(act, self.rows, rows)
        self.rows = rows


# Some with many conflicts.
SEEDS = (9, 5, 14, 18, 35)


@pytest.mark.parametrize("seed", SEEDS[: counted(1, 5)])
def test_two_drivers_at_random_agree_with_the_model(drivers, seed):
    walk = Walk(drivers, seed)
    for _ in range(counted(8, 40)):
        walk.step()
    assert walk.conflicts
    assert walk.moves > walk.conflicts
