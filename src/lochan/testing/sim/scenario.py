"""What is to be simulated: servers and their actors, faults, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lochan.kv.store import Store
from lochan.stores.memory.store import MemoryStore
from lochan.testing.sim.plans import NO_FAULTS, Plan

if TYPE_CHECKING:
    from lochan.testing.sim.actors import Act
    from lochan.testing.sim.history import History
    from lochan.testing.sim.server import Server
    from lochan.testing.sim.world import World

Check = Callable[["World", "History"], object]
"""Raises AssertionError, or any error of ours, if the run is not as it must be."""


@dataclass(frozen=True)
class Scenario:
    """One situation, to be run under many schedules.

    `setup` runs once on an empty store and must return plain values (`world.prepared`): a memory
    store is copied for each run. `open` builds what the actors of a server share (`server.app`);
    neither is interleaved. `restart` returns the actors of the server that follows a crashed one.
    """

    name: str
    servers: Mapping[str, Sequence[Act]]
    checks: Mapping[str, Check]
    setup: Callable[[Server], Any] | None = None
    open: Callable[[Server], Any] | None = None
    restart: Callable[[Server], Sequence[Act]] | None = None
    watch: Callable[[World], None] | None = None
    """Runs at the beginning and after every step; it may read `world.store` and must not write.

    What it sees is kept in `world.watched`, for checks that need every state in between."""

    faults: Plan = field(default=NO_FAULTS)
    store: Callable[[], Store] = MemoryStore

    reopen: Callable[[Store], Store] | None = None
    """Opens the store again after a crash, for stores that live in the process that died."""

    atomic_apply: bool | None = None
    """False takes an atomic `apply` apart: objects first, then the row."""

    row_locks: bool = False
    """`hold` locks its row against other actors; writers wait too."""

    lock_points: bool = True
    """Taking a lock is a point where other actors of the same server may go first."""

    return_points: bool = False
    """The return of a store call is such a point too: finds races of memory, costs steps."""

    steps_max: int = 20_000
    """More steps than this count as running for ever."""
