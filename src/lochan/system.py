"""The real world behind the ports of `base/ports.py`: clock, randomness, waiting, lanes of threads.

Here too is the driver that lets threads wait for a branch's lane.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from typing import Final

from lochan.base.errors import LochanError, Unknown
from lochan.kernel.lane import Lane
from lochan.kernel.publish import Proposal, Published, Publisher, Settled
from lochan.process import after_fork

# Enough for some hundred ids; fetched by one system call.
_AHEAD_BYTES: Final = 4_096


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        """Microseconds since 1970, may jump."""
        return time.time_ns() // 1_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start, never goes back."""
        return time.monotonic_ns()


class SystemRandom:
    """The operating system's randomness; fetched ahead, as asking costs more than what is got."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._forget()
        # Two processes must never hand out the same bytes.
        after_fork(self, SystemRandom._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._ahead = b""
        self._used = 0

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes, fit for secrets and ids; none of them is returned twice."""
        with self._lock:
            end = self._used + count
            if end > len(self._ahead):
                if count > _AHEAD_BYTES:
                    return os.urandom(count)
                self._ahead = os.urandom(_AHEAD_BYTES)
                self._used, end = 0, count
            taken = self._ahead[self._used : end]
            self._used = end
            return taken

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + (high - low) * self._random.random()


class ThreadWaiting:
    """Sleeps the calling thread."""

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns after about that long."""
        time.sleep(duration_ms / 1_000)


class _WaitingProposal:
    """A proposal whose thread waits for the answer."""

    __slots__ = ("answer", "done", "proposal")

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.done = threading.Event()
        self.answer: Settled | None = None

    def is_answered(self) -> bool:
        """Whether the answer is there; another thread may put it at any moment."""
        return self.answer is not None


class ThreadLane:
    """Lets threads commit to one branch: a thread that finds the lane free publishes for all.

    There is no thread of its own. The thread that has published hands the lane to the first that
    waits (`_successor`), and no other may take it until that one has woken up: a thread that is
    awake anyway would publish its next commit before those that waited, and make twice their
    progress.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lane: Lane[_WaitingProposal] = Lane()
        self._successor: _WaitingProposal | None = None
        self._lock = threading.Lock()

    def commit(self, proposal: Proposal) -> Published:
        """Returns when the proposal is published; raises what it was refused for."""
        waiting = _WaitingProposal(proposal)
        with self._lock:
            self._lane.offer(waiting)
            batch = self._lane.take() if self._successor is None else ()
        while waiting.answer is None:
            if batch:
                self._publish(batch)
            self._wait(waiting)
            if not waiting.is_answered():
                # Woken to take over, not to leave.
                waiting.done.clear()
                with self._lock:
                    self._successor = None
                    batch = self._lane.take()
        if isinstance(waiting.answer, Published):
            return waiting.answer
        raise waiting.answer

    def _wait(self, waiting: _WaitingProposal) -> None:
        """Waits for the answer or the lane; an interrupted thread hands the lane to the next."""
        woken = False
        try:
            woken = waiting.done.wait()
        finally:
            if not woken:
                with self._lock:
                    self._lane.cancel(waiting)
                    if self._successor is waiting:
                        self._successor = self._lane.first_waiting
                        if self._successor is not None:
                            self._successor.done.set()

    def _publish(self, batch: Sequence[_WaitingProposal]) -> None:
        answers: Sequence[Settled] | LochanError = Unknown(
            "publishing ended without an answer; read the branch before trying again"
        )
        try:
            proposals = [waiting.proposal for waiting in batch]
            answers = self._publisher.publish(proposals, self._join)
        except LochanError as error:
            answers = error
        finally:
            # Whatever happened, no thread is left waiting.
            with self._lock:
                batch = self._lane.settle()
                self._successor = self._lane.first_waiting
            if isinstance(answers, LochanError):
                answers = [answers] * len(batch)
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.answer = answer
                waiting.done.set()
            # Last: threads that were answered may come back meanwhile, and join the next batch.
            with self._lock:
                if self._successor is not None:
                    self._successor.done.set()

    def _join(self) -> Sequence[Proposal]:
        """Adds the proposals that came meanwhile to the batch that is being published."""
        with self._lock:
            return [waiting.proposal for waiting in self._lane.take_more()]
