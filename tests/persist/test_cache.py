"""One budget for many caches: bounded together, and each with entries of its own."""

from __future__ import annotations

import gc
from random import Random
from weakref import WeakSet

from lochan.base.ids import ObjId
from lochan.kernel.repository import Ports
from lochan.persist.cache import ENTRY_BYTES, BoundedCache, CacheBudget, Caches
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.service.bench import ME

VALUE = bytes(1_000)
WEIGHT = len(VALUE) + ENTRY_BYTES


class Kept:
    """A value that can be watched."""


def name(number: int) -> ObjId:
    return ObjId(number.to_bytes(32, "big"))


def held(caches: list[BoundedCache[bytes]], count: int) -> int:
    """Returns how many entries are in memory, without using one."""
    return sum(
        name(number) in cache._young or name(number) in cache._old
        for cache in caches
        for number in range(count)
    )


def test_an_entry_is_found_in_the_cache_that_it_was_given_to_and_in_no_other():
    budget = CacheBudget(1 << 20)
    one: BoundedCache[bytes] = budget.cache(len)
    other: BoundedCache[bytes] = budget.cache(len)
    one.keep(name(1), VALUE)
    assert one.find(name(1)) is VALUE
    assert other.find(name(1)) is None


def test_all_caches_of_a_budget_together_stay_within_it():
    budget = CacheBudget(40 * WEIGHT)
    caches: list[BoundedCache[bytes]] = [budget.cache(len) for _ in range(30)]
    random = Random(1)
    for _ in range(5_000):
        cache, number = random.choice(caches), random.randrange(20)
        if cache.find(name(number)) is None:
            cache.keep(name(number), VALUE)
        assert held(caches, 20) <= 40


def test_what_is_dropped_is_freed_bit_by_bit_and_before_more_is_dropped():
    budget = CacheBudget(400 * WEIGHT)
    cache: BoundedCache[Kept] = budget.cache(lambda _: len(VALUE))
    idle: BoundedCache[Kept] = budget.cache(lambda _: len(VALUE))
    alive: WeakSet[Kept] = WeakSet()
    before = 0
    for number in range(2_000):
        value = Kept()
        alive.add(value)
        (idle if number % 10 == 0 else cache).keep(name(number), value)
        assert len(alive) <= 401
        assert before - len(alive) <= 4
        before = len(alive)


def test_a_cache_that_is_not_used_gives_its_memory_to_those_that_are():
    budget = CacheBudget(40 * WEIGHT)
    idle: BoundedCache[bytes] = budget.cache(len)
    busy: BoundedCache[bytes] = budget.cache(len)
    for number in range(15):
        idle.keep(name(number), VALUE)
    for number in range(100):
        busy.keep(name(number), VALUE)
    assert held([idle], 15) == 0
    assert held([busy], 100) >= 20


def test_an_entry_that_is_used_stays_while_others_come_and_go():
    budget = CacheBudget(40 * WEIGHT)
    first: BoundedCache[bytes] = budget.cache(len)
    other: BoundedCache[bytes] = budget.cache(len)
    first.keep(name(0), VALUE)
    for number in range(1, 1_000):
        other.keep(name(number), VALUE)
        assert first.find(name(0)) is VALUE


def test_a_cache_that_nothing_refers_to_is_forgotten_by_its_budget():
    budget = CacheBudget(1 << 20)
    kept: BoundedCache[bytes] = budget.cache(len)
    for _ in range(10):
        budget.cache(len)
    gc.collect()
    assert [reference() for reference in budget._caches.valuerefs()] == [kept]


def test_the_budgets_of_a_server_add_up_to_what_it_was_given():
    caches = Caches(1_000_000)
    budgets = (caches.inner_nodes, caches.leaves, caches.commits, caches.values)
    assert sum(2 * budget._half_bytes for budget in budgets) in range(999_990, 1_000_001)


def test_repositories_of_one_server_share_their_caches():
    clock = ManualClock()
    repositories = Repositories(
        MemoryStore(), Ports(clock, SeededRandom(1), RecordedWaiting(clock))
    )
    one, two = (repositories.create(ME, text).context for text in ("one", "two"))
    assert one.views._cache._budget is two.views._cache._budget
    assert one.values._budget is two.values._budget
    assert one.nodes._leaves._budget is two.nodes._leaves._budget
    assert one.views._cache is not two.views._cache
