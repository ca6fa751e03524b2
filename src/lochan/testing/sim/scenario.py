"""A scenario to be simulated: servers and their actors, faults, and the checks at the end."""

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
"""Raises AssertionError, or any error of ours, if an invariant does not hold."""


@dataclass(frozen=True)
class Scenario:
    """One scenario, to be run under many schedules.

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

    It may keep what it read in `world.watched`, for checks that need every state in between."""

    faults: Plan = field(default=NO_FAULTS)
    store: Callable[[], Store] = MemoryStore

    reopen: Callable[[Store], Store] | None = None
    """Opens the store again after a crash, for stores that are in the memory of the server."""

    atomic_apply: bool | None = None
    """False makes two calls of an atomic `apply`: objects first, then the row."""

    row_locks: bool = False
    """`hold` locks its row against other actors; writers wait too."""

    lock_points: bool = True
    """Before a lock is taken, other actors of the same server may run."""

    return_points: bool = False
    """So they may after a store call has returned: finds races in memory, costs steps."""

    steps_max: int = 20_000
    """More steps than this count as running for ever."""
