"""Threads that commit to one branch through one lane: nobody is lost, repeated or left waiting.

All threads are joined without a time-out: one that is left waiting hangs the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Barrier, Event, Lock, Thread

import pytest

from lochan.base.errors import KeysConflict, LochanError, Unavailable, Unknown
from lochan.base.keys import Universe
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.repository import Ports, create_repository
from lochan.stores.memory.store import MemoryStore
from lochan.system import SystemClock, SystemRandom, ThreadLane, ThreadWaiting
from lochan.testing.faults import FaultyStore
from tests.kernel.workbench import (
    MAIN,
    Bench,
    OnCalls,
    Reacts,
    Wants,
    branch,
    element,
    operations,
    plan,
    published,
    put,
    table,
    wants,
)

THREADS = 16
COMMITS = 30


class Watched:
    """A publisher that remembers the sizes of its batches, and may break."""

    def __init__(
        self, publisher: Publisher, before: Callable[[int], None] = lambda _: None
    ) -> None:
        self._publisher = publisher
        self._before = before
        self.sizes: list[int] = []
        self._busy = Lock()

    def publish(self, proposals, join=None):
        assert self._busy.acquire(blocking=False), "one batch at a time"
        try:
            self.sizes.append(len(proposals))
            self._before(len(self.sizes))
            return self._publisher.publish(proposals)
        finally:
            self._busy.release()


def together(count: int, work: Callable[[int], None]) -> None:
    """Runs threads at once and raises the first failure."""
    start, failures = Barrier(count), []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_all_commits_of_all_threads_are_there_once_and_in_their_order():
    bench = Bench()
    watched = Watched(bench.publisher)
    lane = ThreadLane(watched)  # type: ignore[arg-type]
    heads: dict[str, bytes] = {}

    def work(number: int) -> None:
        for at in range(COMMITS):
            name = f"{number} {at}"
            made = lane.commit(wants(number * COMMITS + at, name))
            (view,) = made.commits
            heads[name] = view.obj_id

    together(THREADS, work)
    log = bench.again().log()
    names = operations(log)
    assert Counter(names) == Counter(f"{n} {at}" for n in range(THREADS) for at in range(COMMITS))
    assert {name: view.obj_id for name, view in zip(names, log, strict=True)} == heads
    for number in range(THREADS):
        mine = [int(name.split()[1]) for name in names if name.split()[0] == f"{number}"]
        assert mine == list(range(COMMITS))
    assert len(bench.content(bench.head(), Universe.TABLES)) == THREADS * COMMITS
    assert sum(watched.sizes) == THREADS * COMMITS
    assert lane._lane.is_idle


def hold_first_batch(bench: Bench, waiting: int, break_with: LochanError | Exception | None = None):
    """A lane whose first batch waits until so many others wait behind it."""
    lane_of: list[ThreadLane] = []

    def before(batch: int) -> None:
        if batch == 1:
            while len(lane_of[0]._lane._waiting) < waiting:
                Event().wait(0.001)
        if batch == 2 and break_with is not None:
            raise break_with

    watched = Watched(bench.publisher, before)
    lane_of.append(ThreadLane(watched))  # type: ignore[arg-type]
    return lane_of[0], watched


def test_those_who_wait_are_published_together():
    bench = Bench()
    lane, watched = hold_first_batch(bench, 99)
    together(100, lambda number: check_published(lane, number))
    assert watched.sizes == [1, 64, 35]
    assert len(bench.log()) == 100
    assert bench.row().version == 1 + 3


def check_published(lane: ThreadLane, number: int) -> None:
    assert len(lane.commit(wants(number)).commits) == 1


def test_one_that_is_refused_hears_it_and_the_others_do_not():
    bench = Bench()
    bench.commit(wants(0, "there"))
    lane, _ = hold_first_batch(bench, 19)
    answers: dict[int, object] = {}

    def work(number: int) -> None:
        expected = None if number % 4 == 0 else element(0)
        try:
            answers[number] = lane.commit(
                Wants(plan([put(table(0), element(0), expected)], f"{number}"))
            )
        except KeysConflict as error:
            answers[number] = error

    together(20, work)
    for number, answer in answers.items():
        assert isinstance(answer, KeysConflict if number % 4 == 0 else Published)
    assert len(bench.log()) == 1 + 15


@pytest.mark.parametrize("broken", [Unavailable("away"), ZeroDivisionError("broken")], ids=repr)
def test_an_error_of_the_publisher_answers_all_who_were_in_the_batch(broken):
    """The one who published hears the error itself; nobody waits for ever, and the lane goes on."""
    bench = Bench()
    lane, watched = hold_first_batch(bench, 99, broken)
    answers: list[object] = []

    def work(number: int) -> None:
        try:
            answers.append(lane.commit(wants(number)))
        except (LochanError, ZeroDivisionError) as error:
            answers.append(error)

    together(100, work)
    assert watched.sizes == [1, 64, 35]
    kinds = Counter(type(answer) for answer in answers)
    if isinstance(broken, LochanError):
        assert kinds == {Published: 36, Unavailable: 64}
    else:
        assert kinds == {Published: 36, ZeroDivisionError: 1, Unknown: 63}
    assert len(bench.log()) == 36
    check_published(lane, 1_000)
    assert lane._lane.is_idle


def test_a_store_that_breaks_once_leaves_nobody_waiting():
    bench = Bench()
    broken = iter([ZeroDivisionError("once")])

    def choose(call):
        if call.operation == "apply":
            for error in broken:
                raise error

    server = bench.again(FaultyStore(bench.store, OnCalls(choose)))
    lane = ThreadLane(server.publisher)
    answers: list[object] = []

    def work(number: int) -> None:
        for at in range(10):
            try:
                answers.append(lane.commit(wants(number * 10 + at)))
            except (LochanError, ZeroDivisionError) as error:
                answers.append(error)

    together(THREADS, work)
    assert len(answers) == THREADS * 10
    done = [answer for answer in answers if isinstance(answer, Published)]
    assert len(bench.log()) == len(done) < THREADS * 10
    assert sum(isinstance(answer, ZeroDivisionError) for answer in answers) == 1


def test_two_lanes_on_one_branch_lose_and_repeat_nothing():
    """As two servers: each has its own memory, clock and lane."""
    store = MemoryStore()
    ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    create_repository(store, ports, "repo")
    benches = [Bench(store, seed=seed, fresh=False) for seed in (1, 2)]
    for bench in benches:
        bench.context.clock, bench.context.waiting = ports.clock, ports.waiting
    lanes = [ThreadLane(Publisher(bench.context, MAIN)) for bench in benches]

    def work(number: int) -> None:
        for at in range(15):
            lanes[number % 2].commit(wants(number * 15 + at))

    together(8, work)
    names = operations(benches[0].log())
    assert Counter(names) == Counter(f"put {number}" for number in range(8 * 15))
    for number in range(8):
        mine = [name for name in names if number * 15 <= int(name.split()[1]) < number * 15 + 15]
        assert mine == [f"put {number * 15 + at}" for at in range(15)]


def test_names_may_be_used_by_many_threads():
    """The index of names has one publisher on a server, and no lane."""
    store = MemoryStore()
    ports = Ports(SystemClock(), SystemRandom(), ThreadWaiting())
    names = ReferenceIndex(create_repository(store, ports, "repo"))

    def work(number: int) -> None:
        for at in range(8):
            (row,) = names.create_many([branch(f"r{number}-{at}")], Initiator("me"))
            if at % 2:
                names.delete(row.name, row.pointer, Initiator("me"))  # type: ignore[arg-type]

    together(4, work)
    expected = sorted(f"r{number}-{at}" for number in range(4) for at in range(0, 8, 2))
    assert [row.name for row in names.page("r", None, 100)] == expected


def test_a_member_may_look_at_the_head_it_is_planned_on():
    bench = Bench()
    lane = ThreadLane(bench.publisher)

    def count(head) -> list:
        found = head.find([table(0)])[table(0)]
        number = 0 if found is None else int.from_bytes(found[34:], "big")
        return [plan([put(table(0), element(0, content=number + 1), found)], f"{number}")]

    def work(_: int) -> None:
        for _ in range(10):
            lane.commit(Reacts(count))

    together(8, work)
    assert operations(bench.log()) == [f"{number}" for number in range(80)]
    assert published(bench.publisher.publish([Wants()])[0]).head.sequence == 80


def test_the_lane_is_handed_to_the_first_who_waits_and_not_to_who_is_awake():
    """Two threads, one of them always quicker to come back: neither gets two turns for one."""
    bench = Bench()
    lane, watched = hold_first_batch(bench, 1)
    heir_awake = Event()
    lane._wait = hold_up(lane, heir_awake)

    def quick() -> None:
        lane.commit(wants(0, "quick 0"))
        again.start()
        while len(lane._lane._waiting) < 2:
            Event().wait(0.001)
        assert lane._successor is not None, "the lane is kept for the thread that waited"
        assert not lane._lane._under_way
        heir_awake.set()

    again = Thread(target=lambda: lane.commit(wants(1, "quick 1")), daemon=True)
    slow = Thread(target=lambda: lane.commit(wants(2, "slow")), daemon=True)
    first = Thread(target=quick, daemon=True)
    first.start()
    while not watched.sizes:
        Event().wait(0.001)
    slow.start()
    for thread in (first, slow, again):
        thread.join()
    assert operations(bench.log()) == ["quick 0", "slow", "quick 1"]
    assert lane._lane.is_idle


def hold_up(lane: ThreadLane, until: Event) -> Callable[[object], None]:
    """Makes who is to take over wake up late."""
    wait = lane._wait

    def late(waiter) -> None:
        wait(waiter)
        if not waiter.is_answered():
            until.wait()

    return late


def test_an_heir_that_is_interrupted_leaves_the_lane_to_the_next():
    bench = Bench()
    lane, _ = hold_first_batch(bench, 2)
    interrupted: list[str] = []

    class Interrupted:
        """An event whose first waiter is told to stop when it is woken."""

        def __init__(self, event: Event) -> None:
            self._event = event
            self.set, self.clear = event.set, event.clear

        def wait(self) -> bool:
            self._event.wait()
            interrupted.append("once")
            raise KeyboardInterrupt

    offer = lane._lane.offer

    def offer_first(waiter) -> None:
        offer(waiter)
        if len(lane._lane._waiting) == 1 and lane._lane._under_way:
            waiter.done = Interrupted(waiter.done)

    lane._lane.offer = offer_first
    answers: list[object] = []

    def work(number: int) -> None:
        try:
            answers.append(lane.commit(wants(number)))
        except KeyboardInterrupt as stop:
            answers.append(stop)

    together(3, work)
    assert interrupted == ["once"]
    assert sorted(type(answer).__name__ for answer in answers) == [
        "KeyboardInterrupt",
        "Published",
        "Published",
    ]
    assert len(bench.log()) == 2
    assert lane._lane.is_idle


def test_who_comes_while_the_row_is_waited_for_joins_the_chain():
    bench = Bench()
    publisher = bench.publisher
    lane = ThreadLane(publisher)
    hold = publisher.context.references.hold
    sizes: list[int] = []

    def slow_hold(name):
        """The row is waited for until nineteen others have come."""
        if not sizes:
            while len(lane._lane._waiting) < 19:
                Event().wait(0.001)
        sizes.append(len(lane._lane._waiting))
        return hold(name)

    publisher.context.references.hold = slow_hold  # type: ignore[method-assign]
    publisher._cautious_rounds = 8
    together(20, lambda number: check_published(lane, number))
    assert sizes == [19]
    assert len(bench.log()) == 20
    assert bench.row().version == 1 + 1
