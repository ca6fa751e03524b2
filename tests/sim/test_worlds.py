"""Servers die as a whole, locks block and are found out, time is virtual, random is decided."""

from __future__ import annotations

import os

import pytest

from lochan.base.errors import Bug, Exhausted, Unknown
from lochan.kv.store import ABSENT, PRESENT, Adds, Partition, SetIf, Won
from lochan.testing.sim import (
    Faults,
    Scenario,
    Server,
    SimulatedCrash,
    Violation,
    exhaust,
    explore,
    replay,
)

PLACE = Partition(b"place")


def put(server: Server, key: bytes, value: bytes = b"v") -> None:
    server.store.put_many([(PLACE, key, value)])


def keys(world) -> list[bytes]:
    return [row.key for row in world.store.scan(PLACE, b"", None, 100).entries]


def test_a_crash_kills_all_actors_of_its_server_and_nobody_else():
    def act(server: Server) -> None:
        for turn in range(3):
            server.attempt("put", put, server, f"{server.name}-{turn}".encode())

    def check(world, history) -> None:
        for server in world.servers:
            mine = [event for event in history if event.server == server.name]
            died = [event for event in mine if event.crashed]
            assert bool(died) == server.dead
            if not server.dead:
                assert len(mine) == 6
                assert all(event.acknowledged for event in mine)

    scenario = Scenario(
        "two and two",
        {"s1": [act, act], "s2": [act, act]},
        {"crash domains": check},
        faults=Faults(crash_before=0.1, crash_after=0.1, most=1),
    )
    report = explore(scenario, 400)
    assert 100 < report.crashes < 400


def test_a_dead_server_reaches_no_store_even_if_its_code_will_not_die():
    def act(server: Server) -> None:
        try:
            put(server, b"a")
        except SimulatedCrash:
            with server.new_lock():
                put(server, b"b")
        finally:
            put(server, b"c")

    def check(world, history) -> None:
        expected = [b"a"] if world.trace.steps[0][2].kind.value == "crash_after" else []
        assert keys(world) == (expected if world.crashes else [b"a", b"c"])

    faults = Faults(crash_before=1, crash_after=1, most=1, only=lambda _, call: call.key == b"a")
    report = exhaust(Scenario("undead", {"s": [act]}, {"nothing more": check}, faults=faults))
    assert report.schedules == 3


def test_another_server_follows_a_dead_one():
    def act(server: Server) -> None:
        put(server, b"first")
        put(server, b"second")

    def recover(server: Server) -> None:
        put(server, b"recovered by " + server.app)
        assert server.clock.now_us() > server.world.servers[0].clock.now_us()

    def check(world, history) -> None:
        assert (b"recovered by s'" in keys(world)) == (world.crashes == 1)

    scenario = Scenario(
        "restart",
        {"s": [act]},
        {"recovered": check},
        open=lambda server: server.name.encode(),
        restart=lambda server: [recover],
        faults=Faults(crash_before=1, crash_after=1, most=1),
    )
    # No crash, two ways at each of the two first calls, two more at the call of the follower.
    assert exhaust(scenario).crashes == 4


def locking(*orders: str) -> Scenario:
    def actor(order: str):
        def act(server: Server) -> None:
            with server.app[order[0]]:
                put(server, order.encode())
                with server.app[order[1]]:
                    put(server, order.encode())

        return act

    return Scenario(
        "two locks",
        {"s": [actor(order) for order in orders]},
        {},
        open=lambda server: {name: server.new_lock() for name in "xy"},
    )


def test_a_deadlock_is_found_and_can_be_shown_again():
    with pytest.raises(Violation) as found:
        explore(locking("xy", "yx"), 200)
    assert found.value.invariant == "deadlock"
    assert "A for lock, B for lock" in str(found.value)
    with pytest.raises(Violation, match="deadlock"):
        replay(locking("xy", "yx"), found.value.trace)
    with pytest.raises(Violation, match="deadlock"):
        exhaust(locking("xy", "yx"))


def test_locks_in_one_order_do_not_deadlock():
    assert exhaust(locking("xy", "xy")).complete


def test_a_lock_taken_twice_by_one_actor_is_a_deadlock():
    with pytest.raises(Violation, match="deadlock"):
        explore(locking("xx"), 1)


def test_an_actor_waits_until_another_has_done_it():
    def wait(server: Server) -> None:
        server.wait_until(lambda: server.app, "news")
        assert server.store.get(PLACE, b"news") is not None

    def announce(server: Server) -> None:
        put(server, b"news")
        server.app.append("news")

    def receive(server: Server) -> None:
        server.wait_until(lambda: True)

    scenario = Scenario("news", {"s": [wait, announce, receive]}, {}, open=lambda server: [])
    assert exhaust(scenario).complete
    in_vain = Scenario("no news", {"s": [wait, receive]}, {}, open=lambda server: [])
    with pytest.raises(Violation, match="A for news"):
        exhaust(in_vain)


def caching(*, lock_points: bool, return_points: bool, guarded: bool) -> Scenario:
    """Reads a row and remembers it, beside a writer who remembers what it wrote."""

    def read(server: Server) -> None:
        row = server.store.get(PLACE, b"k")
        if guarded:
            with server.app["lock"]:
                server.app["cached"] = row and row.value
        else:
            server.app["cached"] = row and row.value

    def write(server: Server) -> None:
        put(server, b"k", b"new")
        with server.app["lock"]:
            server.app["cached"] = b"new"

    def check(world, history) -> None:
        assert world.servers[0].app["cached"] == b"new", "a stale value stays in the cache"

    return Scenario(
        "cache",
        {"s": [read, write]},
        {"cache": check},
        open=lambda server: {"lock": server.new_lock(), "cached": None},
        lock_points=lock_points,
        return_points=return_points,
    )


def test_races_of_memory_are_found_where_locks_and_returns_are_points():
    exhaust(caching(lock_points=False, return_points=False, guarded=True))
    with pytest.raises(Violation, match="stale"):
        exhaust(caching(lock_points=True, return_points=False, guarded=True))
    with pytest.raises(Violation, match="stale"):
        exhaust(caching(lock_points=False, return_points=True, guarded=False))


def holding(*, row_locks: bool, faults: Faults | None = None) -> Scenario:
    def count(server: Server) -> bool:
        held = server.store.hold(PLACE, b"n")
        number = 1 if held.entry is None else int(held.entry.value) + 1
        expected = ABSENT if held.entry is None else held.entry.stamp
        row = SetIf(PLACE, b"n", b"%d" % number, expected)
        return isinstance(held.apply(Adds([], 1), row), Won)

    def act(server: Server) -> None:
        server.attempt("count", count, server)

    def hold_in_vain(server: Server) -> None:
        held = server.store.hold(PLACE, b"n")
        try:
            put(server, b"other")
        finally:
            held.release()
        held.release()

    def give_up(server: Server) -> None:
        server.attempt("give up", hold_in_vain, server)

    def write(server: Server) -> None:
        server.attempt("write", server.store.set_if, PLACE, b"n", b"100", PRESENT)

    def check(world, history) -> None:
        lost = [event for event in history.acknowledged("count") if not event.result]
        assert not lost, "a write lost although its row was held"

    return Scenario(
        "hold",
        {"s1": [act], "s2": [act], "s3": [give_up], "s4": [write]},
        {"who holds wins": check},
        row_locks=row_locks,
        faults=faults or Faults(),
    )


def test_a_held_row_is_nobody_elses_until_it_is_given_up():
    assert exhaust(holding(row_locks=True)).complete
    with pytest.raises(Violation, match="although its row was held"):
        exhaust(holding(row_locks=False))


def test_a_dead_holder_holds_nothing():
    crashes = Faults(crash_before=0.1, crash_after=0.1, lost_reply=0.1, not_applied=0.1, most=3)
    report = explore(holding(row_locks=True, faults=crashes), 1_000)
    assert report.crashes > 300
    assert report.schedules == 1_000


def test_sleep_moves_the_own_clock_and_a_long_one_that_of_everybody():
    def act(server: Server) -> None:
        clock = server.clock
        before_us, before_ns = clock.now_us(), clock.monotonic_ns()
        server.waiting.sleep_ms(12.5)
        assert clock.now_us() - before_us == 12_500
        assert clock.monotonic_ns() - before_ns == 12_500_000

    def day(server: Server) -> None:
        server.waiting.sleep_ms(24 * 3_600 * 1_000)

    def check(world, history) -> None:
        times = [server.clock.now_us() for server in world.servers]
        assert max(times) - min(times) < 1_000_000

    assert exhaust(Scenario("naps", {"s1": [act], "s2": [act]}, {"time": check})).schedules == 1
    assert exhaust(Scenario("days", {"s1": [day], "s2": [day]}, {"time": check})).schedules == 2


def test_clocks_jump_but_durations_do_not_notice():
    def act(server: Server) -> None:
        for _ in range(5):
            before = server.clock.monotonic_ns()
            put(server, b"k")
            assert server.clock.monotonic_ns() - before == 100_000

    def check(world, history) -> None:
        drift = abs(world.servers[0].clock.now_us() - world.servers[1].clock.now_us())
        assert drift <= 4 * 3_600 * 1_000_000
        assert (drift > 1_000) == any("@" in who for who, _, _ in world.trace.steps)

    scenario = Scenario(
        "clocks", {"s1": [act], "s2": [act]}, {"drift": check}, faults=Faults(clock_jump=0.05)
    )
    report = explore(scenario, 300)
    assert report.clock_jumps > 100


def naming(random_bytes) -> Scenario:
    def act(server: Server) -> None:
        put(server, random_bytes(server)(8).hex().encode() * 2)

    return Scenario("naming", {"s1": [act], "s2": [act]}, {})


def test_chance_of_the_servers_is_decided_by_the_seed():
    report = explore(naming(lambda server: server.random.random_bytes), 100, recheck_every=1)
    assert report.rechecked == 100
    assert report.distinct == 1, "random names are normalised"


def test_hidden_randomness_is_reported():
    with pytest.raises(Violation) as found:
        explore(naming(lambda server: os.urandom), 1)
    assert found.value.invariant == "determinism"
    with pytest.raises(Violation) as found:
        exhaust(naming(lambda server: os.urandom))
    assert found.value.invariant == "determinism"

    hidden = iter(range(10**9))

    def act(server: Server) -> None:
        for _ in range(next(hidden) % 3):
            put(server, b"k")

    with pytest.raises(Violation) as found:
        explore(Scenario("hidden counter", {"s1": [act], "s2": [act]}, {}), 40)
    assert found.value.invariant == "determinism"


def test_an_error_that_nobody_expected_is_a_violation():
    def failing(error: BaseException):
        def act(server: Server) -> None:
            put(server, b"k")
            raise error

        return act

    for error in (KeyError("x"), Exhausted("x"), Unknown("x")):
        with pytest.raises(Violation, match=type(error).__name__) as found:
            explore(Scenario("failing", {"s": [failing(error)]}, {}), 1)
        assert found.value.invariant == "an actor failed"
        assert found.value.__cause__ is error

    def buggy(server: Server) -> None:
        server.attempt("belief", failing(Bug("wrong")), server)

    with pytest.raises(Violation, match="wrong"):
        explore(Scenario("bug", {"s": [buggy]}, {}), 1)


def test_running_for_ever_is_a_violation():
    def act(server: Server) -> None:
        while True:
            server.store.get(PLACE, b"k")

    with pytest.raises(Violation, match="still running after 50 steps") as found:
        explore(Scenario("spin", {"s": [act]}, {}, steps_max=50), 1)
    assert found.value.invariant == "no end"


def test_an_actor_must_not_reach_for_another_server():
    servers: list[Server] = []

    def act(server: Server) -> None:
        servers.append(server)
        put(server, b"k")
        put(servers[0], b"k")
        put(servers[1], b"k")

    with pytest.raises(Violation, match="which is not its server"):
        explore(Scenario("confused", {"s1": [act], "s2": [act]}, {}), 1)


def test_set_up_runs_once_and_every_run_begins_there():
    setups = []

    def setup(server: Server) -> int:
        setups.append(server)
        put(server, b"prepared")
        return 42

    def act(server: Server) -> None:
        assert server.world.prepared == 42
        assert server.store.get(PLACE, b"prepared") is not None
        server.store.delete(PLACE, b"prepared")
        put(server, b"k" + server.random.random_bytes(4).hex().encode())

    def check(world, history) -> None:
        assert len(keys(world)) == 1

    explore(Scenario("prepared", {"s": [act]}, {"one": check}, setup=setup), 50)
    assert len(setups) == 1


def test_a_scenario_watches_every_state():
    def act(server: Server) -> None:
        for key in (b"a", b"b"):
            put(server, key)

    def watch(world) -> None:
        world.watched.append((len(world.trace.steps), keys(world)))

    def check(world, history) -> None:
        assert [step for step, _ in world.watched] == list(range(len(world.trace.steps) + 1))
        assert [len(seen) for _, seen in world.watched] == [0, 1, 2]

    report = explore(Scenario("watched", {"s": [act]}, {"all": check}, watch=watch), 20)
    assert report.schedules == 20


def changes_of(*names: bytes) -> list[tuple[Adds, SetIf]]:
    return [(Adds([], 0), SetIf(PLACE, name, b"v", ABSENT)) for name in names]


def test_several_rows_are_written_by_one_statement_that_fails_as_a_whole():
    def act(server: Server) -> None:
        names = (b"a", b"b") if server.name == "s1" else (b"b", b"c")
        server.attempt("each", server.store.apply_each, changes_of(*names))

    def check(world, history) -> None:
        calls = [call.operation for who, call, _ in world.trace.steps if who in "AB"]
        assert calls.count("apply_each") == 2
        for event in history.of("each"):
            own = {b"a", b"b"} if event.server == "s1" else {b"b", b"c"}
            if event.acknowledged:
                assert own <= set(keys(world))
            elif event.outcome == "unavailable":
                assert not own - {b"b"} & set(keys(world))

    def outcomes(world, history) -> None:
        results = [event.result for event in history.acknowledged("each")]
        if len(results) == 2:
            assert sum(isinstance(one, Won) for result in results for one in result) == 3

    scenario = Scenario(
        "one statement",
        {"s1": [act], "s2": [act]},
        {"whole": check, "each for itself": outcomes},
        faults=Faults(not_applied=0.1, lost_reply=0.1, late=0.1, most=1),
    )
    report = exhaust(scenario)
    assert report.complete
    assert report.schedules > 5


def test_statements_that_are_not_atomic_are_taken_apart():
    def act(server: Server) -> None:
        server.store.apply_each(changes_of(b"a", b"b"))

    def check(world, history) -> None:
        assert [call.operation for _, call, _ in world.trace.steps] == ["set_if", "set_if"]

    scenario = Scenario("apart", {"s": [act]}, {"calls": check}, atomic_apply=False)
    assert explore(scenario, 2).schedules == 2
