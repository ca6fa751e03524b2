"""What a server does by itself: periodic_tasks, again and again, until it stops."""

from __future__ import annotations

from threading import Event

from lochan.base.errors import Unavailable
from lochan.transport.server import PeriodicTask
from tests.transport.world import running


def test_a_chore_is_done_again_and_again_even_after_it_failed():
    done = Event()
    times: list[None] = []

    def work() -> None:
        times.append(None)
        if len(times) == 3:
            done.set()
        raise Unavailable("not now")

    with running(periodic_tasks=[PeriodicTask(0.01, work)]):
        assert done.wait(20)
    after = len(times)
    assert after >= 3
    assert len(times) == after


def test_a_chore_with_more_to_do_goes_on_after_a_pause():
    done = Event()
    times: list[None] = []

    def work() -> bool:
        times.append(None)
        if len(times) == 200:
            done.set()
        return len(times) < 200

    # Without the pauses two hundred turns would take longer than anybody waits here.
    with running(periodic_tasks=[PeriodicTask(0.5, work, 0.001)]):
        assert done.wait(60)
