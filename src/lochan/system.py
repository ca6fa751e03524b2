"""The real world behind the ports of `base/ports.py`: clock, chance, locks and waiting.

Here too is the driver that lets threads wait for a branch's lane.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from random import SystemRandom

from lochan.base.errors import Bug, LochanError, Unknown
from lochan.base.ports import Lock
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Member, Published, Publisher, Settled


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Microseconds since 1970, may jump."""
        return time.time_ns() // 1_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start, never goes back."""
        return time.monotonic_ns()


class SystemChance:
    """The operating system's randomness."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes, fit for secrets and ids."""
        return os.urandom(count)

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + (high - low) * self._random.random()


class ThreadLocks:
    """Locks between threads."""

    def new_lock(self) -> Lock:
        """Returns a fresh, unlocked lock."""
        return threading.Lock()


class ThreadWaiting:
    """Sleeps the calling thread."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after about that long."""
        time.sleep(duration_ms / 1_000)


class _Waiter:
    """One who waits, and where its answer is put."""

    __slots__ = ("answer", "done", "member")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.done = threading.Event()
        self.answer: Settled | None = None

    def is_answered(self) -> bool:
        """Whether the answer is there; another thread may put it at any moment."""
        return self.answer is not None


class ThreadLane:
    """Lets threads commit to one branch: whoever finds the lane free publishes for all who wait.

    No thread is kept for it. The one that publishes works off what came meanwhile only until its
    own member is answered, and then hands over to one who waits.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lane: Lane[_Waiter] = Lane()
        self._lock = threading.Lock()

    def commit(self, member: Member) -> Published:
        """Returns when the member is published; raises what it was refused for."""
        waiter = _Waiter(member)
        with self._lock:
            self._lane.offer(waiter)
            batch = self._lane.take()
        while batch:
            self._publish(batch)
            with self._lock:
                batch = () if waiter.done.is_set() else self._lane.take()
        waiter.done.wait()
        while not waiter.is_answered():
            # Woken to take over, not to leave; unless the answer came in this very moment.
            waiter.done.clear()
            if not waiter.is_answered():
                with self._lock:
                    batch = self._lane.take()
                if batch:
                    self._publish(batch)
                waiter.done.wait()
        if isinstance(waiter.answer, Published):
            return waiter.answer
        raise waiter.answer or Bug("a waiter left without an answer")

    def _publish(self, batch: Sequence[_Waiter]) -> None:
        lost = Unknown("publishing ended without an answer; read the branch before trying again")
        answers: Sequence[Settled] = [lost] * len(batch)
        try:
            answers = self._publisher.publish([waiter.member for waiter in batch])
        except LochanError as error:
            answers = [error] * len(batch)
        finally:
            # Whatever happened, nobody is left waiting.
            with self._lock:
                self._lane.settle()
                heir = self._lane.first_waiting
            for waiter, answer in zip(batch, answers, strict=True):
                waiter.answer = answer
                waiter.done.set()
            if heir is not None:
                heir.done.set()
