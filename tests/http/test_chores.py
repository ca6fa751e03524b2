"""What a server does by itself: chores, again and again, until it stops."""

from __future__ import annotations

from threading import Event

from lochan.base.errors import Unavailable
from lochan.http.server import Chore
from tests.http.world import running


def test_a_chore_is_done_again_and_again_even_after_it_failed():
    done = Event()
    times: list[None] = []

    def work() -> None:
        times.append(None)
        if len(times) == 3:
            done.set()
        raise Unavailable("not now")

    with running(chores=[Chore(0.01, work)]):
        assert done.wait(20)
    after = len(times)
    assert after >= 3
    assert len(times) == after
