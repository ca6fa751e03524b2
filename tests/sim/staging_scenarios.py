"""Staged files under the explorer: the scenarios."""

from __future__ import annotations

from typing import Any

from lochan.testing.sim import NO_FAULTS, Scenario
from tests.sim.staging_actors import (
    CRASHES,
    LOSSY,
    SIDE,
    App,
    claims_path,
    commits,
    deletes,
    fetches,
    in_turn,
    increments,
    lists,
    merges,
    reads,
    recreates,
    set_up,
    sweeps,
    table_commits,
    writes,
)
from tests.sim.staging_checks import (
    files_are_right,
    found_1_3_2,
    found_banana,
    history_is_right,
    nothing_is_left_over,
    rows_are_new_enough,
    tokens_are_in_order,
    watch_tokens,
    writers_retry_rarely,
)

CHECKS = {
    "tokens": tokens_are_in_order,
    "files": files_are_right,
    "history": history_is_right,
    "rest": nothing_is_left_over,
}


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("checks", CHECKS)
    return Scenario(name=name, servers=servers, setup=set_up, open=App, watch=watch_tokens, **more)


SCENARIOS = [
    scenario(
        "writers beside committers",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [writes("x", "b1"), writes("y", "c1")],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "servers that die",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [commits("c1", "c2")],
            "s3": [in_turn(writes("y", "b1"), commits("c3"))],
        },
        faults=CRASHES,
        restart=lambda server: [in_turn(reads("x"), commits(f"again {server.name}"))],
    ),
    scenario(
        "readers and listings beside commits and sweeps",
        {
            "s1": [in_turn(writes("x", "a1"), deletes("y"), writes("y", "a2"))],
            "s2": [reads("x", 2), lists(2)],
            "s3": [commits("c1", "c2")],
            "s4": [sweeps],
        },
    ),
    scenario(
        "table commits and merges on the same row",
        {
            "s1": [in_turn(writes("x", "a1"), commits("c1", tables=True))],
            "s2": [table_commits("t1", "t2")],
            "s3": [in_turn(merges, reads("m"))],
            "s4": [writes("m", "a2")],
        },
    ),
    scenario(
        "a branch that is deleted and created again",
        {
            "s1": [writes("x", "a1", "a2", branch=SIDE), reads("x", 2, SIDE)],
            "s2": [recreates],
            "s3": [commits("c1", branch=SIDE)],
            "s4": [sweeps],
        },
    ),
    scenario(
        "conditional writes",
        {
            "s1": [claims_path("y", "a1")],
            "s2": [claims_path("y", "b1")],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "deletions and overwrites",
        {
            "s1": [in_turn(deletes("x"), reads("x"))],
            "s2": [in_turn(writes("x", "b1"), deletes("x"))],
            "s3": [commits("c1", "c2")],
        },
    ),
    scenario(
        "commits without changes",
        {
            "s1": [in_turn(writes("x", "first"), commits("c1"))],
            "s2": [in_turn(writes("y", "b1"), commits("c2", "c3"))],
            "s3": [lists(2)],
        },
    ),
]

SCENARIOS += [
    scenario(
        "reads that actors of one server share",
        {
            "s1": [fetches(3), fetches(3)],
            "s2": [table_commits("t1", "t2")],
        },
        return_points=True,
        faults=NO_FAULTS,
        checks={"rows": rows_are_new_enough},
    ),
    scenario(
        "writers without faults",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [writes("x", "b1")],
            "s3": [commits("c1", "c2", "c3")],
        },
        faults=NO_FAULTS,
        checks={**CHECKS, "retries": writers_retry_rarely},
    ),
]

ANOMALIES = [
    scenario(
        "1-3-2",
        {"s1": [increments], "s2": [increments], "s3": [commits("c1")], "s4": [reads("x", 4)]},
        faults=NO_FAULTS,
        checks={"1-3-2": found_1_3_2},
    ),
    scenario(
        "banana",
        {
            "s1": [writes("x", "N")],
            "s2": [writes("x", "A")],
            "s3": [commits("c1", "c2", "c3", "c4")],
        },
        faults=NO_FAULTS,
        checks={"banana": found_banana},
    ),
]
"""What the promises allow: each must be found, or the explorer does not explore."""
