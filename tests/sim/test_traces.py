"""Traces are short, readable and the same everywhere; equal interleavings are counted once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lochan.base.ids import InstanceId
from lochan.kv.store import Kind, Partition, partition
from lochan.testing.sim import (
    Faults,
    Report,
    Scenario,
    Server,
    Stage,
    explore,
    replay,
    run,
)
from lochan.testing.sim.choosers import FirstChooser, RandomChooser
from lochan.testing.sim.trace import parse
from tests.sim.chain import committing, resend_then_walk

REFERENCES = partition(InstanceId(b"0123456789abcdef"), Kind.REFERENCES)
OBJECTS = partition(InstanceId(b"0123456789abcdef"), Kind.OBJECTS, b"\x00\x01")
FAULTS = Faults(lost_reply=0.1, late=0.1, not_applied=0.1, crash_after=0.03, clock_jump=0.02)


def act(server: Server) -> None:
    store = server.store
    random = server.random.random_bytes(32)
    store.get(REFERENCES, b"main")
    store.put_many([(OBJECTS, random, b"x"), (OBJECTS, b"\xff" * 32, b"y")])
    store.get(OBJECTS, random)
    store.scan(Partition(b"\x01\x02"), b"", None, 5)
    store.flush(store.epoch())


def test_a_listing_shows_kinds_and_plain_names_and_numbers_the_rest():
    world = run(Stage(Scenario("one", {"s": [act]}, {})), FirstChooser())
    assert world.trace.listing().splitlines() == [
        "   0    A get r/main",
        "   1    A put_many o/#1 +1",
        "   2    A get o/#1",
        "   3    A scan ?/",
        "   4    A flush",
    ]
    assert world.trace.text().startswith("sim1 0 A*5 =")
    assert len(world.trace.store_calls()) == 5


def test_the_short_form_is_read_back_as_it_was_written():
    seed, steps, digest = parse("sim1 17 A*2 B!torn/2 ~A1 @s1-5 B!lost_reply . =00ff")
    assert (seed, digest) == (17, "00ff")
    assert [who for who, _ in steps] == ["A", "A", "B", "~A1", "@s1-5", "B", "."]
    assert [(fault.kind.value, fault.count) for _, fault in steps][2] == ("torn", 2)


@pytest.mark.parametrize("seed", range(40))
def test_every_trace_can_be_run_again(seed):
    scenario = committing(resend_then_walk, faults=FAULTS)
    world = run(Stage(scenario), RandomChooser(seed))
    again = replay(scenario, world.trace.text())
    assert again.trace.text() == world.trace.text()
    assert again.history.text() == world.history.text()
    assert again.trace.difference(world.trace) == ""


def test_traces_do_not_depend_on_the_process():
    code = (
        "from tests.sim.test_traces import *\n"
        "from lochan.testing.sim import signatures\n"
        "scenario = committing(resend_then_walk, faults=FAULTS)\n"
        "worlds = [run(Stage(scenario), RandomChooser(seed)) for seed in range(30)]\n"
        "print([(world.trace.text(), signatures(world.trace.steps)) for world in worlds])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count("sim1") == 30


def test_reports_of_several_runs_add_up_without_counting_an_order_twice():
    scenario = committing(resend_then_walk, faults=FAULTS)
    whole = explore(scenario, 200)
    sum_ = Report("both")
    for first in (0, 100):
        sum_.add(explore(scenario, 100, first_seed=first))
    assert (sum_.schedules, sum_.steps, sum_.late) == (whole.schedules, whole.steps, whole.late)
    assert sum_.orders == whole.orders
    assert sum_.distinct <= sum_.distinct_with_faults <= sum_.schedules
    assert "200 schedules" in sum_.line()
