"""The real ports keep what `base/ports.py` says; the deterministic ones repeat themselves."""

from __future__ import annotations

from lochan.base.ports import Clock, Random, Waiting
from lochan.system import SystemClock, SystemRandom, ThreadWaiting
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededChance


def test_the_real_ones_fit_the_ports() -> None:
    clock: Clock = SystemClock()
    random: Random = SystemRandom()
    waiting: Waiting = ThreadWaiting()
    assert clock.now_us() > 1_700_000_000_000_000
    assert clock.monotonic_ns() <= clock.monotonic_ns()
    assert len(random.random_bytes(16)) == 16
    assert random.random_bytes(16) != random.random_bytes(16)
    assert all(2 <= random.between(2, 3) < 3 for _ in range(100))
    waiting.sleep_ms(0)


def test_the_deterministic_ones_fit_the_ports_and_repeat_themselves() -> None:
    clock: Clock = ManualClock(1_000)
    assert (clock.now_us(), clock.monotonic_ns()) == (1_000, 0)
    left, right = SeededChance(7), SeededChance(7)
    random: Random = left
    assert random.random_bytes(9) == right.random_bytes(9)
    assert left.between(1, 2) == right.between(1, 2)
    assert SeededChance(8).random_bytes(9) != SeededChance(7).random_bytes(9)


def test_waiting_moves_the_manual_clock() -> None:
    clock = ManualClock(0)
    waiting: Waiting = RecordedWaiting(clock)
    waiting.sleep_ms(1.5)
    assert (clock.now_us(), clock.monotonic_ns()) == (1_500, 1_500_000)
    clock.jump_us(-1_000)
    assert (clock.now_us(), clock.monotonic_ns()) == (500, 1_500_000)
