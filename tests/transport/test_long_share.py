"""Long work gets its share beside a busy loop, and costs nothing when there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lochan.base.limits.server import (
    LONG_SHARE,
    SHARE_SLICE_MAX_S,
    SHARE_SWITCH_INTERVAL_S,
    SWITCH_INTERVAL_S,
)
from lochan.transport.long_share import LongShare


class Machine:
    """A loop, its threads and a clock; while the loop sleeps the threads compute."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.cpu_s = 0.0
        self.is_idle = False
        self.computes = True
        self.slept: list[float] = []
        self.due: list[Callable[[], None]] = []

    def used_s(self) -> float:
        return self.cpu_s

    def call_later(self, _: float, work: Callable[[], None]) -> Machine:
        self.due.append(work)
        return self

    def cancel(self) -> None:
        self.due = []

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.pass_time(duration_s, duration_s if self.computes else 0.0)

    def pass_time(self, duration_s: float, computed_s: float = 0.0) -> None:
        self.time_s += duration_s
        self.cpu_s += computed_s

    def turn(self) -> None:
        (work,) = self.due
        self.due = []
        work()


@pytest.fixture
def machine() -> Iterator[Machine]:
    before = sys.getswitchinterval()
    yield Machine()
    sys.setswitchinterval(before)


def share_of(machine: Any) -> LongShare:
    return LongShare(machine, machine, machine.sleep, lambda: machine.time_s)


def test_threads_that_lack_their_share_get_it(machine):
    share_of(machine).begin()
    for _ in range(200):
        machine.pass_time(0.004)
        machine.turn()
    assert machine.cpu_s / machine.time_s == pytest.approx(LONG_SHARE, rel=0.02)


def test_threads_that_had_their_share_are_left_alone(machine):
    share_of(machine).begin()
    for _ in range(20):
        machine.pass_time(0.004, 0.002)
        machine.turn()
    assert machine.slept == []


def test_a_sleep_is_short_however_long_the_loop_was_busy_and_whatever_the_threads_do(machine):
    machine.computes = False
    share_of(machine).begin()
    for busy_s in (0.004, 1.0, 0.004):
        machine.pass_time(busy_s)
        machine.turn()
    assert max(machine.slept) == SHARE_SLICE_MAX_S
    assert machine.slept[-1] < SHARE_SLICE_MAX_S


def test_nothing_is_left_to_do_when_the_threads_are_idle(machine):
    share = share_of(machine)
    share.begin()
    share.begin()
    assert len(machine.due) == 1
    assert sys.getswitchinterval() == pytest.approx(SHARE_SWITCH_INTERVAL_S)
    machine.is_idle = True
    machine.turn()
    assert (machine.due, machine.slept) == ([], [])
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    machine.is_idle = False
    share.begin()
    assert len(machine.due) == 1


def test_a_server_that_stops_leaves_nothing_behind(machine):
    share = share_of(machine)
    share.stop()
    share.begin()
    share.stop()
    assert machine.due == []
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
