"""Delivery in process: filters, bounded queues, retries, the breaker, slow and broken listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.assembly.events import EventRunner, _work
from lochan.assembly.subscribers import Registration
from lochan.base.errors import Invalid
from lochan.embedded import Embedded, open_repository
from lochan.events.delivery import Delivery
from lochan.events.filters import EventFilter
from lochan.events.hub import AnyDelivery, EventHub
from lochan.events.subscribers import (
    DeliveryOptions,
    DropPolicy,
    EventListener,
    Registrar,
    SubscriptionState,
)
from lochan.kernel.context import Tuning
from lochan.kernel.repository import Ports
from lochan.model.commits import Put
from lochan.model.contents import Namespace
from lochan.model.events import CommitMade, Event
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.testing.ports import ManualClock
from tests.events.collector import Collector, collected
from tests.events.served import commit_over_http, served
from tests.service.bench import table


class Sleeps:
    """Notes sleeps instead of sleeping."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.slept: list[float] = []
        self.wait: Callable[[], None] = lambda: None

    def sleep_ms(self, duration_ms: float) -> None:
        self.wait()
        self.slept.append(duration_ms)
        self.clock.advance_us(int(duration_ms * 1_000))


class Bench:
    """A repository whose worker is the test."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_700_000_000_000_000)
        self.sleeps = Sleeps(self.clock)
        self.ports = Ports(self.clock, SystemRandom(), self.sleeps)
        self.started: list[AnyDelivery] = []
        self.hub = EventHub(self.ports, threading.Lock, self.started.append)
        self.store = MemoryStore()
        repositories = Repositories(self.store, self.ports, tuning=Tuning(observer=self.hub))
        self.repository = Embedded(self.store, repositories.create(Call(), "default"), "me")

    def commit(self, *names: str) -> None:
        self.commit_on("main", *names)

    def commit_on(self, branch: str, *names: str) -> None:
        puts = [Put(key=(name,), content=table(name)) for name in names]
        self.repository.commits.commit(branch, names[0], puts)


def messages(collector: Collector) -> list[str]:
    return [one.meta.message for one in collector.events if isinstance(one, CommitMade)]


def commits_only(**fields: Any) -> EventFilter:
    return EventFilter(types=("COMMIT",), **fields)


class Failing(Collector):
    """Raises the first so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def on_event(self, event: Event) -> None:
        if self.left:
            self.left -= 1
            raise ConnectionError("away")
        super().on_event(event)


def test_a_failed_call_is_repeated_with_growing_sleeps_and_jitter():
    bench, listener = Bench(), Failing(3)
    delivery = bench.hub.subscribe(listener, commits_only())
    bench.commit("a")
    assert delivery.turn()
    assert len(listener.events) == 1
    assert [100 * 2**n / 2 <= slept < 100 * 2**n for n, slept in enumerate(bench.sleeps.slept)] == [
        True
    ] * 3
    status = delivery.status()
    assert (status.delivered, status.retried, status.dead) == (1, 3, 0)
    assert (status.state, status.last_error) == (SubscriptionState.RUNNING, "ConnectionError")


def test_an_event_that_fails_for_good_is_a_dead_letter_and_others_follow():
    bench, listener = Bench(), Failing(5)
    delivery = bench.hub.subscribe(listener, commits_only())
    bench.commit("a")
    bench.commit("b")
    while delivery.turn():
        pass
    assert messages(listener) == ["b"]
    (letter,) = delivery.dead_letters
    assert isinstance(letter.event, CommitMade)
    assert (letter.event.meta.message, letter.error) == ("a", "ConnectionError")


def test_the_breaker_opens_after_failures_and_tries_one_event_later():
    bench, listener = Bench(), Failing(10**6)
    delivery = bench.hub.subscribe(listener, commits_only())
    for name in "abcde":
        bench.commit(name)
    while delivery.turn():
        pass
    status = delivery.status()
    assert (status.state, status.dead, status.queued) == (SubscriptionState.TRIPPED, 3, 2)
    assert not delivery.turn()
    listener.left = 0
    bench.clock.advance_us(30_000_000)
    while delivery.turn():
        pass
    assert messages(listener) == ["d", "e"]
    assert delivery.status().state is SubscriptionState.RUNNING


@pytest.mark.parametrize(
    ("drop", "left"), [(DropPolicy.NEWEST, ["a", "b"]), (DropPolicy.OLDEST, ["c", "d"])]
)
def test_a_full_queue_drops_and_counts(drop, left):
    bench, listener = Bench(), Collector()
    options = DeliveryOptions(queue_max=2, drop=drop)
    delivery = bench.hub.subscribe(listener, commits_only(), options)
    for name in "abcd":
        bench.commit(name)
    assert (delivery.status().queued, delivery.status().dropped) == (2, 2)
    while delivery.turn():
        pass
    assert messages(listener) == left


class Slow(Collector):
    """Takes a minute of simulated time, and commits meanwhile."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.states: list[SubscriptionState] = []

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if len(self.events) == 1:
            self.bench.clock.advance_us(60_000_000)
            self.states.append(self.bench.started[0].status().state)
            self.bench.commit("meanwhile")


def test_a_call_that_takes_too_long_trips_its_subscription_until_it_returns():
    bench = Bench()
    listener = Slow(bench)
    delivery = bench.hub.subscribe(listener, commits_only())
    bench.commit("a")
    assert delivery.turn()
    assert listener.states == [SubscriptionState.TRIPPED]
    assert (delivery.status().dropped, delivery.turn()) == (1, False)
    bench.commit("b")
    assert delivery.turn()
    assert messages(listener) == ["a", "b"]


def test_nothing_is_handed_over_before_it_is_durable(monkeypatch):
    bench, order = Bench(), list[str]()
    listener = Collector()
    delivery = bench.hub.subscribe(listener, commits_only())
    bench.commit("a")
    epoch = bench.store.epoch()
    monkeypatch.setattr(bench.store, "flush", lambda number: order.append(f"flush {number}"))
    monkeypatch.setattr(listener, "on_event", lambda event: order.append(event.type))
    delivery.turn()
    assert order == [f"flush {epoch}", "COMMIT"]


def test_a_cancelled_subscription_gets_nothing_more():
    bench, listener = Bench(), Collector()
    delivery = bench.hub.subscribe(listener)
    bench.commit("a")
    delivery.cancel()
    bench.commit("b")
    assert not delivery.turn()
    assert listener.events == []
    assert delivery.status().state is SubscriptionState.CANCELLED


FILTERS = [
    (EventFilter(types=("CONTENT_STORED",)), {"CONTENT_STORED"}, 3),
    (EventFilter(references=("m*n",), types=("COMMIT",)), {"COMMIT"}, 2),
    (EventFilter(references=("side",), types=("COMMIT",)), {"COMMIT"}, 2),
    (EventFilter(types=("CONTENT_STORED",), keys=("ns.*",)), {"CONTENT_STORED"}, 1),
    (EventFilter(types=("FILE_STORED",), file_prefixes=("d/",)), {"FILE_STORED"}, 1),
    (EventFilter(types=("FILE_STORED", "CONTENT_STORED"), keys=("a",)), {"CONTENT_STORED"}, 1),
    (EventFilter(types=("CONTENT_STORED",), content_types=("NAMESPACE",)), {"CONTENT_STORED"}, 1),
    (EventFilter(repositories=("other",)), set(), 0),
    (EventFilter(roles=("admins",)), set(), 0),
    (EventFilter(expression="op == 'COMMIT' && ref == 'side'"), {"COMMIT"}, 2),
    (EventFilter(expression="path.startsWith('d/') && role == 'me'"), {"FILE_STORED"}, 1),
]


@pytest.mark.parametrize(("wanted", "types", "count"), FILTERS)
def test_filters_are_exact(wanted, types, count):
    collector = Collector(wanted)
    with collected(collector) as repository:
        repository.commits.commit("main", "a", [Put(key=("a",), content=table("a"))])
        namespace = Namespace(elements=("ns",))
        repository.commits.commit("main", "ns", [Put(key=("ns",), content=namespace)])
        repository.references.create("side")
        repository.commits.commit("side", "t", [Put(key=("ns", "t"), content=table("t"))])
        repository.files.put("side", "d/f", b"1")
        repository.files.put("side", "e", b"1")
        repository.files.commit("side", "files")
    assert (set(collector.types), len(collector.types)) == (types, count)


def test_a_filter_that_cannot_be_used_is_refused():
    for wanted in (EventFilter(expression="nonsense("), EventFilter(references=("*a*b*c*",))):
        with pytest.raises(Invalid):
            Bench().hub.subscribe(Collector(), wanted)


class Blocked(EventListener):
    """Never returns until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def register(self, registrar: Registrar) -> None:
        registrar.subscribe(self)

    def on_event(self, event: Event) -> None:
        self.release.wait()


def test_a_blocked_and_a_broken_subscriber_change_nothing_for_others():
    blocked, broken, collector = Blocked(), Failing(10**6), Collector(commits_only())
    with open_repository("memory:", subscribers=[blocked, broken, collector]) as repository:
        for number in range(20):
            name = str(number)
            repository.commits.commit("main", name, [Put(key=(name,), content=table(name))])
        blocked.release.set()
    assert messages(collector) == [str(n) for n in range(20)]


def test_no_request_waits_for_a_subscriber():
    runner = EventRunner(Ports(SystemClock(), SystemRandom(), ThreadWaiting()))
    blocked = [Blocked() for _ in range(5)]
    for one in blocked:
        runner.hub.subscribe(one)
    with served(runner, runner.hub.ports) as address:
        for number in range(20):
            # None of them has returned from its first call, and none will before the last reply.
            commit_over_http(address, f"t{number}")
        assert [one.status().delivered for one in runner.hub.deliveries] == [0] * 5
    for one in blocked:
        one.release.set()
    runner.close()


def test_a_worker_that_is_stopped_just_before_it_waits_ends():
    bench, listener = Bench(), Blocked()
    delivery = bench.hub.subscribe(listener)
    assert isinstance(delivery, Delivery)

    class Bell(threading.Event):
        def clear(self) -> None:
            # Here the worker has found that it is not over yet.
            delivery.stop()
            super().clear()

    bell, stopping = Bell(), threading.Event()
    delivery.wake = bell.set
    stopping.set()
    _work(delivery, bell, stopping)
    assert delivery.is_over


def test_a_subscriber_that_fails_at_its_start_is_cancelled_and_tried_again():
    ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    runner = EventRunner(ports)
    collector, attempts = Collector(), list[int]()

    class Late:
        def register(self, registrar: Registrar) -> None:
            attempts.append(1)
            registrar.subscribe(collector)
            if len(attempts) == 1:
                raise OSError("not yet")

    late = Registration(name="late", load=Late)
    assert not runner._register(late)
    assert [one.status().state for one in runner.hub.deliveries] == [SubscriptionState.CANCELLED]
    assert runner._register(late)
    runner.close()
    assert len(attempts) == 2


@pytest.mark.parametrize(("drop", "kept"), [(DropPolicy.NEWEST, "a"), (DropPolicy.OLDEST, "b")])
def test_a_queue_counts_the_commits_of_its_changes(monkeypatch, drop: DropPolicy, kept: str):
    monkeypatch.setattr("lochan.events.changes.Change.size", 3)
    bench, collector = Bench(), Collector()
    options = DeliveryOptions(queue_max=5, drop=drop)
    delivery = bench.hub.subscribe(collector, commits_only(), options)
    bench.commit("a")
    bench.commit("b")
    assert (delivery.status().queued, delivery.status().dropped) == (1, 1)
    while delivery.turn():
        pass
    # What waits alone may be larger than the queue.
    monkeypatch.setattr("lochan.events.changes.Change.size", 9)
    bench.commit("c")
    assert delivery.turn()
    assert messages(collector) == [kept, "c"]


def test_subscriptions_that_want_the_same_share_the_events_of_a_change():
    bench = Bench()
    first, second, narrow = Collector(), Collector(), Collector(EventFilter(keys=("b",)))
    for one in (first, second, narrow):
        one.register(bench.hub)
    bench.commit("a", "b")
    for delivery in bench.started:
        while delivery.turn():
            pass
    assert [event.type for event in first.events] == ["COMMIT", "CONTENT_STORED", "CONTENT_STORED"]
    assert all(one is other for one, other in zip(first.events, second.events, strict=True))
    assert [event.id for event in narrow.events] == [
        first.events[0].id,
        first.events[2].id,
    ]


def test_a_change_with_very_many_events_is_not_kept_for_others(monkeypatch):
    monkeypatch.setattr("lochan.events.shared.EVENT_SHARED_MAX", 2)
    bench = Bench()
    first, second = Collector(), Collector()
    for one in (first, second):
        one.register(bench.hub)
    bench.commit("a", "b")
    for delivery in bench.started:
        while delivery.turn():
            pass
    assert first.events == second.events
    assert len(first.events) == 3
    assert first.events[0] is not second.events[0]
