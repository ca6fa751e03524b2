"""Chains of mixed proposals on one and on two servers, in random mixes."""

from __future__ import annotations

from typing import Any

from lochan.testing.sim import Faults, Scenario
from tests.sim import mixed_catalog, mixed_kernel
from tests.sim.mixed_catalog import CatalogDraws
from tests.sim.mixed_checks import CHECKS, watch
from tests.sim.mixed_kernel import KernelDraws
from tests.sim.mixed_requests import (
    Act,
    acts,
    in_turn,
    merged_again,
    mixed,
    moved,
    one_each,
    together,
)

LOSSY = Faults(lost_reply=0.05, late=0.04, not_applied=0.02, most=3)
DEADLY = Faults(lost_reply=0.04, late=0.03, crash_before=0.02, crash_after=0.02, most=3)


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("setup", mixed_kernel.set_up)
    more.setdefault("open", mixed_kernel.App)
    return Scenario(name=name, servers=servers, watch=watch, checks=CHECKS, **more)


def of_catalog(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    return scenario(name, servers, setup=mixed_catalog.set_up, open=mixed_catalog.App, **more)


def kernel(label: str, rounds: int, once: Any) -> Act:
    return acts(KernelDraws, label, rounds, once)


def catalog(label: str, rounds: int, once: Any) -> Act:
    return acts(CatalogDraws, label, rounds, once)


AGAIN = "one source merged again in one chain"
ONE_SERVER = "mixed chains on one server"
TWO_SERVERS = "mixed chains on two servers"
HELD = "mixed chains on held rows"
MOVES = "mixed chains beside moves"
DEATHS = "mixed chains, servers that die"
STATEMENT = "branches in one statement"
STATEMENTS = "branches in one statement on two servers"
CATALOG_ONE = "mixed chains of contents on one server"
CATALOG_TWO = "mixed chains of contents on two servers"
CATALOG_MOVES = "mixed chains of contents beside moves"

OF_KERNEL = [
    scenario(
        AGAIN,
        {"s1": [kernel("a", 1, merged_again), kernel("b", 1, merged_again)]},
    ),
    scenario(
        ONE_SERVER,
        {"s1": [kernel("a", 2, mixed), kernel("b", 2, mixed)]},
    ),
    scenario(
        TWO_SERVERS,
        {"s1": [kernel("a", 2, mixed)], "s2": [kernel("b", 1, merged_again)]},
    ),
    scenario(
        HELD,
        {"s1": [kernel("a", 2, mixed), kernel("b", 1, mixed)], "s2": [kernel("c", 2, mixed)]},
        row_locks=True,
    ),
    scenario(
        MOVES,
        {
            "s1": [kernel("a", 2, mixed), kernel("m", 1, moved("fast_forward", "force", "rebase"))],
            "s2": [kernel("n", 2, moved("assign", "rebase"))],
        },
    ),
    scenario(
        DEATHS,
        {
            "s1": [kernel("a", 2, mixed)],
            "s2": [in_turn(kernel("b", 1, merged_again), kernel("n", 1, moved("rebase", "force")))],
        },
        faults=DEADLY,
        restart=lambda server: [kernel("again", 1, mixed)],
    ),
    scenario(
        STATEMENT,
        {
            "s1": [
                in_turn(kernel("a", 1, one_each), kernel("b", 1, together)),
                kernel("c", 1, mixed),
            ]
        },
    ),
    scenario(
        STATEMENTS,
        {
            "s1": [in_turn(kernel("a", 1, one_each), kernel("b", 1, together))],
            "s2": [in_turn(kernel("c", 1, one_each), kernel("d", 1, together))],
        },
    ),
]

OF_CATALOG = [
    of_catalog(
        CATALOG_ONE,
        {"s1": [catalog("a", 2, mixed), catalog("b", 2, mixed)]},
    ),
    of_catalog(
        CATALOG_TWO,
        {"s1": [catalog("a", 2, mixed)], "s2": [catalog("b", 1, merged_again)]},
        row_locks=True,
    ),
    of_catalog(
        CATALOG_MOVES,
        {"s1": [catalog("a", 2, mixed)], "s2": [catalog("m", 2, moved("rebase", "force"))]},
    ),
]

SCENARIOS = [*OF_KERNEL, *OF_CATALOG]
