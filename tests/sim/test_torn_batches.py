"""Batches that are not atomic: what lies between is seen, torn and swept, on any store."""

from __future__ import annotations

from tempfile import mkdtemp

import pytest

from lochan.assembly import open_store
from lochan.kv.store import ABSENT, Adds, Partition, SetIf, Store
from lochan.testing.sim import Faults, Scenario, Server, Violation, crash_sweep, exhaust, explore

OBJECTS = Partition(b"objects")
HEADS = Partition(b"heads")
ITEMS = [(OBJECTS, b"o%d" % number, b"body") for number in range(3)]


def count_objects(store: Store) -> int:
    return len(store.scan(OBJECTS, b"", None, 10).entries)


def objects_before_head(world, history) -> None:
    if world.store.get(HEADS, b"main") is not None:
        assert count_objects(world.store) == 3, "a head without its objects"


def objects_only_with_head(world, history) -> None:
    if world.store.get(HEADS, b"main") is None:
        assert count_objects(world.store) == 0, "objects without their head"


def publishing(check, *, careless: bool = False, **options) -> Scenario:
    def publish(server: Server) -> None:
        if careless:
            server.store.set_if(HEADS, b"main", b"x", ABSENT)
            server.store.add_many(Adds(ITEMS, 1))
        else:
            server.store.apply(Adds(ITEMS, 1), SetIf(HEADS, b"main", b"x", ABSENT))

    def act(server: Server) -> None:
        server.attempt("publish", publish, server)

    return Scenario("publish", {"s": [act]}, {"objects and head": check}, **options)


def look(server: Server) -> None:
    server.store.get(HEADS, b"main")


def test_an_atomic_apply_is_swept_without_tearing_it():
    report = crash_sweep(publishing(objects_only_with_head), {"look": look})
    assert (report.calls, report.reached) == (1, 2)


def test_an_apply_that_is_not_atomic_is_two_calls_and_can_be_torn():
    apart = publishing(objects_before_head, atomic_apply=False)
    report = crash_sweep(apart, {"look": look, "look again": look})
    # Adding: before, after, one kept, two kept; setting: before, after; each with two follow-ups.
    assert (report.calls, report.reached) == (2, 12)
    assert report.by_fault == {"crash_before": 4, "crash_after": 4, "torn": 4}
    with pytest.raises(Violation, match="objects without their head"):
        crash_sweep(publishing(objects_only_with_head, atomic_apply=False), {"look": look})


def test_a_head_that_goes_first_is_found_by_sweep_and_by_enumeration():
    careless = publishing(objects_before_head, careless=True)
    with pytest.raises(Violation, match="a head without its objects"):
        crash_sweep(careless, {"look": look})
    with pytest.raises(Violation, match="a head without its objects"):
        exhaust(publishing(objects_before_head, careless=True, faults=Faults(partial=1)))


def test_a_write_may_land_when_its_server_is_dead_and_the_follow_up_has_ended():
    def act(server: Server) -> None:
        server.attempt("put", server.store.put_many, [(HEADS, b"main", b"old")])
        server.store.get(HEADS, b"main")

    def replace(server: Server) -> None:
        server.store.put_many([(HEADS, b"main", b"new")])

    def newest_stays(world, history) -> None:
        row = world.store.get(HEADS, b"main")
        assert row is None or row.value == b"new" or not world.crashes, "an old write came last"

    scenario = Scenario("blind", {"s": [act]}, {"newest stays": newest_stays})
    crash_sweep(scenario, {"replace": replace})
    with pytest.raises(Violation, match="an old write came last"):
        crash_sweep(scenario, {"replace": replace}, late=True)


def test_others_see_what_lies_between():
    seen = set()

    def watch(server: Server) -> None:
        seen.add((count_objects(server.store), server.store.get(HEADS, b"main") is not None))

    scenario = publishing(objects_before_head, atomic_apply=False)
    exhaust(Scenario("watched", {**scenario.servers, "w": [watch]}, {}, atomic_apply=False))
    assert seen == {(0, False), (3, False), (3, True), (0, True)}


def test_the_same_scenario_runs_on_the_embedded_store_and_is_opened_again_after_a_crash(tmp_path):
    places: dict[int, str] = {}

    def fresh() -> Store:
        place = mkdtemp(dir=tmp_path)
        store = open_store(f"rocksdb:{place}")
        places[id(store)] = place
        return store

    def reopen(store: Store) -> Store:
        place = places[id(store)]
        store.close()
        return open_store(f"rocksdb:{place}")

    scenario = publishing(objects_only_with_head, store=fresh, reopen=reopen)
    report = crash_sweep(scenario, {"look": look})
    assert report.reached == 2
    assert explore(publishing(objects_only_with_head, store=fresh), 3).schedules == 3
