"""The enumeration is complete: it counts what combinatorics counts, and reduces what commutes."""

from __future__ import annotations

from math import factorial, prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lochan.base.errors import Unknown
from lochan.kv.store import ABSENT, Adds, Partition, SetIf
from lochan.testing.sim import Faults, Scenario, Server, exhaust, explore

PLACE = Partition(b"place")


def reading(key: bytes, times: int):
    def act(server: Server) -> None:
        for _ in range(times):
            server.store.get(PLACE, key)

    return act


def writing(key: bytes, times: int):
    def act(server: Server) -> None:
        for _ in range(times):
            server.store.put_many([(PLACE, key, server.name.encode())])

    return act


def apart(*acts, **options) -> Scenario:
    servers = {f"s{number}": [act] for number, act in enumerate(acts)}
    return Scenario("apart", servers, {}, **options)


def multinomial(*counts: int) -> int:
    return factorial(sum(counts)) // prod(map(factorial, counts))


@pytest.mark.parametrize("counts", [(1,), (2, 2), (3, 2), (2, 2, 2), (1, 2, 3)])
def test_without_reduction_every_interleaving_is_run(counts):
    for kind in (reading, writing):
        report = exhaust(apart(*[kind(b"k", count) for count in counts]), reduce=False)
        assert report.complete
        assert report.schedules == multinomial(*counts)


@pytest.mark.parametrize("counts", [(2, 2), (2, 2, 2), (1, 2, 3)])
def test_with_reduction_reads_are_one_schedule_and_writes_of_one_row_are_all(counts):
    reads = exhaust(apart(*[reading(b"k", count) for count in counts]))
    assert (reads.schedules, reads.distinct, reads.complete) == (1, 1, True)
    rows = exhaust(apart(*[writing(b"k%d" % at, count) for at, count in enumerate(counts)]))
    assert (rows.schedules, rows.distinct, rows.complete) == (1, 1, True)
    same = exhaust(apart(*[writing(b"k", count) for count in counts]))
    assert same.schedules == same.distinct == multinomial(*counts)


def test_random_exploration_of_a_small_scope_finds_exactly_the_enumerated_orders():
    scenario = apart(writing(b"k", 2), reading(b"k", 2), writing(b"k", 1))
    whole = exhaust(scenario)
    report = explore(scenario, 3_000)
    assert report.orders == whole.orders
    assert whole.schedules == whole.distinct


def test_an_enumeration_that_was_cut_short_says_so():
    report = exhaust(apart(writing(b"k", 3), writing(b"k", 3)), schedules_max=5)
    assert (report.schedules, report.complete) == (5, False)


def test_actors_of_one_server_never_commute():
    acts = [reading(b"a", 1), reading(b"b", 1)]
    scenario = Scenario("together", {"s": acts}, {})
    # Each has a step to start and a step to read.
    assert exhaust(scenario).schedules == multinomial(2, 2)


def test_a_scan_meets_writes_of_its_range_only():
    def scanning(server: Server) -> None:
        server.store.scan(PLACE, b"b", b"d", 10)

    for key, schedules in ((b"a", 1), (b"b", 2), (b"c", 2), (b"d", 1)):
        assert exhaust(apart(scanning, writing(key, 1))).schedules == schedules

    def dropping(server: Server) -> None:
        server.store.drop_partition(PLACE)

    for other in (scanning, reading(b"x", 1), writing(b"x", 1), dropping):
        assert exhaust(apart(dropping, other)).schedules == 2


def test_faults_are_branches_of_the_enumeration():
    def act(server: Server) -> None:
        server.attempt("put", server.store.put_many, [(PLACE, b"k", b"v"), (PLACE, b"l", b"v")])

    def found(**kinds) -> int:
        return exhaust(apart(act, faults=Faults(**kinds)), recheck_every=1).schedules

    assert found() == 1
    assert found(lost_reply=1) == 2
    assert found(late=1) == 3, "in time, late, or never"
    assert found(partial=1) == 3, "all, none, one"
    assert found(crash_before=1, crash_after=1, torn=1) == 5
    assert found(clock_jump=1, most=1) == 3
    assert found(not_applied=1, lost_reply=1, most=0) == 1


programs = some.lists(
    some.lists(
        some.tuples(
            some.sampled_from(["get", "put", "set_if", "apply", "scan", "delete", "many"]),
            some.sampled_from([b"a", b"b"]),
        ),
        min_size=1,
        max_size=3,
    ),
    min_size=2,
    max_size=2,
)
kinds = some.sampled_from(["none", "lost_reply", "late", "not_applied", "crash_after"])


def step(server: Server, operation: str, key: bytes) -> object:
    store = server.store
    value = server.name.encode()
    if operation == "get":
        row = store.get(PLACE, key)
        return row and row.value
    if operation == "many":
        return [row and row.value for row in store.get_many([(PLACE, b"a"), (PLACE, b"b")])]
    if operation == "put":
        store.put_many([(PLACE, key, value)])
        return None
    if operation == "delete":
        store.delete(PLACE, key)
        return None
    if operation == "scan":
        return [row.value for row in store.scan(PLACE, b"b", None, 9).entries]
    if operation == "apply":
        adds = Adds([(PLACE, b"object-" + key, b"body")], 1)
        return type(store.apply(adds, SetIf(PLACE, key, value, ABSENT)))
    return type(store.set_if(PLACE, key, value, ABSENT))


def act_of(program):
    def act(server: Server) -> None:
        for operation, key in program:
            server.attempt(operation, step, server, operation, key)

    return act


@given(programs)
def test_equal_interleavings_are_counted_once_and_different_ones_apart(programs):
    scenario = apart(*map(act_of, programs))
    everything = exhaust(scenario, reduce=False, recheck_every=0)
    reduced = exhaust(scenario, real_time=False, recheck_every=0)
    assert everything.distinct == reduced.schedules
    assert everything.orders == reduced.orders


def ends(programs, kind: str, *, real_time: bool, reduce: bool = True, blind: bool = False) -> set:
    """Returns everything that can come of the programs: rows, answers, and who came before whom.

    A blind one enumerates as if nothing depended on the order in time.
    """
    seen = set()

    def look(world, history) -> None:
        rows = world.store.scan(PLACE, b"", None, 100).entries
        answers = [(one.actor, one.outcome, repr(one.result)) for one in history]
        order = [
            (first, second)
            for first, one in enumerate(sorted(history, key=lambda one: one.actor))
            for second, other in enumerate(sorted(history, key=lambda one: one.actor))
            if real_time and one.before(other)
        ]
        state = ([(row.key, row.value) for row in rows], sorted(answers), order)
        seen.add(repr(state))

    kinds: dict[str, Any] = {} if kind == "none" else {kind: 1}
    scenario = Scenario(
        "programs",
        {f"s{number}": [act_of(program)] for number, program in enumerate(programs)},
        {"look": look},
        faults=Faults(**kinds, most=1),
    )
    report = exhaust(
        scenario,
        reduce=reduce,
        real_time=real_time and not blind,
        recheck_every=0,
        schedules_max=20_000,
    )
    assert report.complete
    return seen


@given(programs, kinds)
def test_reduction_misses_no_result(programs, kind):
    whole = ends(programs, kind, real_time=False, reduce=False)
    assert ends(programs, kind, real_time=False) == whole


@given(programs, kinds)
def test_reduction_misses_no_order_in_time(programs, kind):
    whole = ends(programs, kind, real_time=True, reduce=False)
    assert ends(programs, kind, real_time=True) == whole


def test_a_reduction_that_believes_too_much_is_noticed(monkeypatch):
    clash = [[("put", b"a")], [("get", b"a")]]
    whole = ends(clash, "none", real_time=False, reduce=False)
    in_time = ends([[("put", b"a")], [("get", b"b")]], "none", real_time=True, reduce=False)
    assert (len(whole), len(in_time)) == (2, 2)
    only_results = ends([[("put", b"a")], [("get", b"b")]], "none", real_time=True, blind=True)
    assert len(only_results) == 1
    monkeypatch.setattr("lochan.testing.sim.exhaustive.commute", lambda *_: True)
    assert ends(clash, "none", real_time=False, blind=True) != whole


def test_unknown_is_what_a_late_write_says():
    def act(server: Server) -> None:
        with pytest.raises(Unknown):
            server.store.set_if(PLACE, b"k", b"v", ABSENT)

    late_only = Faults(late=1, most=1)
    report = explore(apart(act, faults=late_only), 20)
    assert report.late == 20
