"""Staged files under the explorer: the scenarios.

`staging_checks.py` lists which check is for which promise. All scenarios but those that name their
own checks have all of them: tokens, files, history, and that nothing is left over at rest.
"""

from __future__ import annotations

from typing import Any

from lochan.testing.sim import NO_FAULTS, Scenario
from tests.sim.staging_actors import (
    CRASHES,
    LOSSY,
    SIDE,
    App,
    FoldingApp,
    SearchingApp,
    claims_path,
    commits,
    deletes,
    deletes_many,
    fast_forwards,
    fetches,
    forces,
    in_turn,
    increments,
    lists,
    merges,
    reads,
    recreates,
    resets,
    resets_hard,
    resets_path,
    seals,
    set_up,
    sweeps,
    table_commits,
    writes,
)
from tests.sim.staging_checks import (
    claims_are_exclusive,
    files_are_right,
    found_1_3_2,
    found_banana,
    found_merge_beside_claim,
    history_is_right,
    merges_after_resets_succeed,
    nothing_is_left_over,
    refused_commits_have_nothing,
    rounds_are_short,
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
    "refused": refused_commits_have_nothing,
}


def scenario(name: str, servers: dict[str, list[Any]], **more: Any) -> Scenario:
    more.setdefault("faults", LOSSY)
    more.setdefault("checks", CHECKS)
    more.setdefault("open", App)
    return Scenario(name=name, servers=servers, setup=set_up, watch=watch_tokens, **more)


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
        "a branch that is set elsewhere",
        {
            "s1": [writes("x", "a1"), reads("x", 2)],
            "s2": [in_turn(writes("m", "b1"), deletes("m"), forces, reads("m"))],
            "s3": [in_turn(reads("x"), writes("y", "c1"), reads("y"))],
            "s4": [in_turn(lists(), forces), lists(2)],
        },
    ),
    scenario(
        "a branch that is moved forward",
        {
            "s1": [in_turn(writes("m", "a1"), reads("m", 2))],
            "s2": [in_turn(fast_forwards, reads("m", 2))],
            "s3": [in_turn(writes("x", "c1"), deletes("x")), lists(2)],
            "s4": [in_turn(writes("y", "d1"), fast_forwards)],
        },
    ),
    scenario(
        "conditional writes",
        {
            "s1": [in_turn(claims_path("y", "a1"), claims_path("m", "a2"))],
            "s2": [in_turn(claims_path("m", "b2"), claims_path("y", "b1"))],
            "s3": [commits("c1", "c2")],
        },
        checks={**CHECKS, "claims": claims_are_exclusive},
    ),
    scenario(
        "deletions and overwrites",
        {
            "s1": [in_turn(deletes("x"), reads("x"))],
            "s2": [in_turn(writes("x", "b1"), deletes_many("x", "y"))],
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
        "resets beside merges and seals",
        {
            "s1": [in_turn(writes("m", "a1"), resets_path("m"), merges, reads("m"))],
            "s2": [seals(2)],
            "s3": [in_turn(table_commits("t1"), reads("m"))],
        },
        checks={**CHECKS, "merges": merges_after_resets_succeed},
    ),
    scenario(
        "resets of paths beside seals and commits",
        {
            "s1": [in_turn(writes("x", "a1"), resets_path("x"), reads("x"))],
            "s2": [in_turn(seals(), commits("c1"))],
            "s3": [in_turn(writes("y", "b1"), resets_path("y"), lists())],
        },
    ),
    scenario(
        "listings that pass deleted files",
        {
            "s1": [in_turn(deletes("x"), lists(3))],
            "s2": [in_turn(writes("y", "b1"), deletes("y"), writes("y", "b2"))],
            "s3": [in_turn(commits("c1"), merges, lists(2))],
            "s4": [sweeps],
        },
        open=SearchingApp,
    ),
    scenario(
        "sealed tokens that are folded",
        {
            "s1": [in_turn(writes("x", "a1"), seals(), writes("x", "a2"), seals(), reads("x"))],
            "s2": [in_turn(writes("y", "b1"), commits("c1"), deletes("y"), commits("c2"))],
            "s3": [in_turn(seals(), lists(), seals())],
            "s4": [sweeps],
        },
        open=FoldingApp,
    ),
    scenario(
        "servers that die while they fold",
        {
            "s1": [in_turn(writes("x", "a1"), seals(), writes("x", "a2"), commits("c1"))],
            "s2": [in_turn(writes("y", "b1"), seals(), deletes("y"), seals())],
            "s3": [in_turn(commits("c2"), reads("x"))],
        },
        open=FoldingApp,
        faults=CRASHES,
        restart=lambda server: [in_turn(reads("x"), commits(f"again {server.name}"))],
    ),
    scenario(
        "listings beside resets of deleted files",
        {
            "s1": [in_turn(deletes("x"), lists(2), resets_path("x"), lists(2))],
            "s2": [in_turn(writes("y", "b1"), seals(), lists(2))],
            "s3": [table_commits("t1")],
        },
        open=SearchingApp,
    ),
    scenario(
        "resets beside folds",
        {
            "s1": [in_turn(writes("x", "a1"), seals(), writes("x", "a2"), seals(), resets())],
            "s2": [in_turn(writes("y", "b1"), seals(), resets_path("y"), reads("y"))],
            "s3": [in_turn(seals(), reads("x"), commits("c1"))],
        },
        open=FoldingApp,
    ),
    scenario(
        "resets beside writers and committers",
        {
            "s1": [writes("x", "a1", "a2")],
            "s2": [commits("c1", "c2")],
            "s3": [in_turn(resets(), reads("x"))],
            "s4": [in_turn(resets_path("x"), reads("x"))],
        },
    ),
    scenario(
        "hard resets beside writers and committers",
        {
            "s1": [writes("x", "a1", "a2", branch=SIDE)],
            "s2": [commits("c1", "c2", branch=SIDE)],
            "s3": [in_turn(resets_hard(discard=False), reads("x", 1, SIDE))],
            "s4": [in_turn(resets_hard(discard=True), reads("m", 1, SIDE))],
        },
    ),
    scenario(
        "servers that die beside merges and resets",
        {
            "s1": [in_turn(writes("x", "a1"), commits("c1", tables=True))],
            "s2": [in_turn(merges, resets_path("m"))],
            "s3": [in_turn(writes("m", "b1"), deletes("x"), table_commits("t1"))],
            "s4": [sweeps],
        },
        faults=CRASHES,
        restart=lambda server: [in_turn(lists(), commits(f"again {server.name}"))],
    ),
    scenario(
        "servers that die beside a branch that is created again",
        {
            "s1": [in_turn(writes("x", "a1", "a2", branch=SIDE), reads("x", 1, SIDE))],
            "s2": [recreates],
            "s3": [commits("c1", branch=SIDE)],
            "s4": [resets(SIDE)],
        },
        faults=CRASHES,
        restart=lambda server: [commits(f"again {server.name}", branch=SIDE)],
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
        checks={**CHECKS, "retries": writers_retry_rarely, "progress": rounds_are_short},
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
    scenario(
        "a merge beside a claim",
        {"s1": [claims_path("m", "a1")], "s2": [merges]},
        faults=NO_FAULTS,
        checks={"both": found_merge_beside_claim},
    ),
]
"""What the promises allow: each must be found, or the explorer does not explore."""
