"""Randomness, waiting and locks of a simulated server; its clock is a `ManualClock`."""

from __future__ import annotations

from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lochan.testing.sim.actors import Actor
    from lochan.testing.sim.server import Server

# A sleep this long moves the clocks of all servers: retries make clocks drift apart, hours do not.
LONG_SLEEP_MS: Final = 1_000.0


class SimRandom:
    """Random values that depend only on the seed of the run and the name of the server."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._random: Random | None = None

    def random_bytes(self, count: int) -> bytes:
        """Returns that many bytes."""
        return (self._random or self._begin()).randbytes(count)

    def between(self, low: float, high: float) -> float:
        """Returns a number in [low, high)."""
        return low + (high - low) * (self._random or self._begin()).random()

    def _begin(self) -> Random:
        # Seeding costs as much as several store calls, and many servers need no random value.
        self._random = Random(self._seed)
        return self._random


class SimWaiting:
    """Sleeps in virtual time: the scheduler decides which actors run meanwhile."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def sleep_ms(self, duration_ms: float) -> None:
        """Returns when the scheduler resumes the actor; its clock has moved by the duration."""
        self._server.pause("sleep", (duration_ms,))
        self._server.pass_time(round(duration_ms * 1_000), duration_ms >= LONG_SLEEP_MS)


class SimLock:
    """A lock between the actors of one server; not re-entrant, like the real one."""

    __slots__ = ("_server", "owner")

    def __init__(self, server: Server) -> None:
        self._server = server
        self.owner: Actor | None = None

    def __enter__(self) -> bool:
        self._server.acquire(self)
        return True

    def is_free(self) -> bool:
        """Whether no actor has it."""
        return self.owner is None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.owner = None
