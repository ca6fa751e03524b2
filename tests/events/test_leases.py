"""Of several servers one delivers: it gives the lease back, loses it, or ends without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lochan.events.durable import DurableDelivery
from lochan.events.filters import EventFilter
from lochan.events.subscribers import SubscriptionState
from lochan.model.events import Event
from tests.events.collector import Collector
from tests.events.durable_bench import DurableServer, Refusing, messages, work

COMMITS = EventFilter(types=("COMMIT",))


def test_one_of_two_servers_delivers_and_the_other_takes_over():
    first = DurableServer()
    second = DurableServer(first.store, first.clock)
    one, two = Collector(), Collector()
    holder = first.subscribe(one, COMMITS)
    standby = second.subscribe(two, COMMITS)
    first.commit("a")
    work(holder, first.clock)
    work(standby, first.clock)
    assert (messages(one.events), two.events) == (["a"], [])
    assert standby.status().state is SubscriptionState.STANDBY
    first.commit("b")
    work(standby, first.clock, pauses=6)
    assert messages(two.events) == ["b"]
    # The first one notices it before its next delivery.
    first.commit("c")
    work(holder, first.clock, pauses=2)
    assert messages(one.events) == ["a"]
    assert holder.status().state is SubscriptionState.STANDBY


class Slow(Collector):
    """Takes so long for its first event that another server takes the lease meanwhile."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if len(self.events) == 1:
            self.meanwhile()


def test_a_call_that_outlasts_the_lease_moves_no_cursor_and_loses_nothing():
    first = DurableServer()
    second = DurableServer(first.store, first.clock)
    two = Refusing(ConnectionError("away"))
    standby = second.subscribe(two, COMMITS)
    one = Slow(lambda: work(standby, first.clock, pauses=6))
    holder = first.subscribe(one, COMMITS)
    first.commit("a")
    first.commit("b")
    work(holder, first.clock, pauses=2)
    assert (messages(one.events), len(set(two.asked))) == (["a"], 1)
    assert holder.status().state is SubscriptionState.STANDBY
    two.failure = None
    work(standby, first.clock, pauses=8)
    assert messages(two.events) == ["a", "b"]
    assert two.events[0].id == one.events[0].id


def test_two_servers_that_start_for_the_first_time_at_once_have_one_cursor():
    first = DurableServer()
    second = DurableServer(first.store, first.clock)
    one, two = Collector(), Collector()
    begin = second.repositories.open
    started: list[DurableDelivery] = []

    def open_and_begin(name: str) -> Any:
        # The second server begins while the first one does.
        if not started:
            started.append(second.subscribe(two, COMMITS))
            second.commit("early")
        return begin(name)

    first.repositories.look_into = open_and_begin  # type: ignore[method-assign]
    holder = first.subscribe(one, COMMITS)
    first.commit("late")
    for _ in range(8):
        work(started[0], first.clock)
        work(holder, first.clock)
    assert sorted([*messages(one.events), *messages(two.events)]) == ["early", "late"]


def test_a_server_that_stops_gives_the_lease_back():
    first = DurableServer()
    holder = first.subscribe(Collector(), COMMITS)
    first.commit("a")
    work(holder, first.clock)
    holder.stop()
    while not holder.is_over:
        holder.turn()
    holder.finish()
    second = DurableServer(first.store, first.clock)
    listener = Collector()
    delivery = second.subscribe(listener, COMMITS)
    second.commit("b")
    while delivery.turn():
        pass
    assert messages(listener.events) == ["b"]
