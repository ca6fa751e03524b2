"""Measurements on Spark: CPU time of processes that start and end, and the command line."""

from __future__ import annotations

import pytest

from benchmarks.spark.accounts import Account, look, used_between
from benchmarks.spark.command import commands

BEFORE = {1: Account(0, 10.0, 5.0), 2: Account(1, 4.0, 0.0), 3: Account(2, 2.0, 0.0)}


@pytest.mark.parametrize(
    ("after", "used"),
    [
        (BEFORE, 0),
        ({**BEFORE, 1: Account(0, 11.0, 5.0), 3: Account(2, 2.5, 0.0)}, 1.5),
        ({**BEFORE, 4: Account(1, 3.0, 1.0)}, 4),
        # The third ended after one more second, and its parent waited.
        ({1: BEFORE[1], 2: Account(1, 4.0, 3.0)}, 1),
        # It ended and no parent waited: its last use is unknown, and never below zero.
        ({1: BEFORE[1], 2: BEFORE[2]}, 0),
        # The second waited for the third, used one more second and ended itself.
        ({1: Account(0, 10.0, 12.0)}, 1),
        # A process started and ended.
        ({**BEFORE, 1: Account(0, 10.0, 5.5)}, 0.5),
    ],
)
def test_what_ended_meanwhile_is_counted_once(after, used):
    assert used_between(BEFORE, after) == pytest.approx(used)


def test_a_look_finds_this_process_and_work_that_it_does():
    before = look()
    while used_between(before, look()) == 0:
        sum(range(100_000))


def test_each_part_is_started_with_its_options():
    found = commands(["--rows", "7", "--commits", "8", "--repeats", "1"])
    assert [one[2:] for one in found] == [
        ["benchmarks.spark.read", "--rows", "7", "--repeats", "1"],
        ["benchmarks.spark.write", "--rows", "7", "--repeats", "1"],
        ["benchmarks.spark.filter", "--rows", "7", "--repeats", "1"],
        ["benchmarks.spark.checks", "--rows", "7", "--repeats", "1"],
        ["benchmarks.spark.feed", "--commits", "8", "--repeats", "1"],
    ]
    assert [one[2] for one in commands(["feed"])] == ["benchmarks.spark.feed"]


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        commands(["reed"])
    assert "there is no part 'reed'" in capsys.readouterr().err
