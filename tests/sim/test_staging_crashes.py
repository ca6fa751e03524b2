"""A server dies at every store call of every operation on staged files; the next one can go on.

Afterwards no acknowledged write is lost, and after the sweep nothing is sealed and no dead token
has records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lochan.testing.sim import NO_FAULTS, Server, crash_sweep
from tests.profile import counted
from tests.sim.staging_actors import (
    HOUR_MS,
    SIDE,
    claims_path,
    commits,
    deletes,
    deletes_many,
    in_turn,
    merges,
    reads,
    recreates,
    resets,
    resets_hard,
    resets_path,
    sweep_tokens,
    writes,
)
from tests.sim.staging_scenarios import scenario

Act = Callable[[Server], None]


def seals_twice(server: Server) -> None:
    """Leaves two sealed tokens, as commits that died do; the last commit takes both."""
    app = server.app
    for value in ("s1", "s2"):
        writes("x", value)(server)
        row = app.staging.rows.fetch("main")
        server.attempt("seal", app.staging.committer._tokens.seal, row)
    commits("both")(server)


def sweeps_twice(server: Server) -> None:
    """As the server does by itself: the second time nothing of a dead token is left."""
    for _ in range(2):
        server.waiting.sleep_ms(HOUR_MS)
        server.attempt("sweep", sweep_tokens, server.app.context)


OPERATIONS: dict[str, Act] = {
    "a write and its commit": in_turn(writes("x", "a1"), commits("c1")),
    "a commit of files and tables": in_turn(writes("y", "a1"), commits("c1", tables=True)),
    "a commit without changes": in_turn(writes("x", "first"), commits("c1")),
    "a commit of two sealed tokens": seals_twice,
    "overwrites between commits": in_turn(
        writes("x", "a1", "a2"), commits("c1"), writes("x", "a3"), commits("c2")
    ),
    "deletions": in_turn(deletes("x"), commits("c1"), writes("y", "a1"), deletes_many("y", "x")),
    "a conditional write": in_turn(claims_path("y", "a1"), commits("c1")),
    "the first write of a branch": in_turn(recreates, writes("x", "a1", branch=SIDE)),
    "a reset of a branch": in_turn(writes("x", "a1"), resets()),
    "a reset of a path": in_turn(writes("x", "a1"), resets_path("x"), commits("c1")),
    "a hard reset": in_turn(writes("x", "a1", branch=SIDE), resets_hard(discard=True)),
    "a merge beside staged files": in_turn(writes("x", "a1"), merges, commits("c1")),
    "a commit and its sweep": in_turn(writes("x", "a1"), commits("c1"), sweeps_twice),
}

FOLLOW_UPS: dict[str, Act] = {
    "read": in_turn(reads("x"), reads("x", 1, SIDE)),
    "write and commit": in_turn(writes("x", "after"), commits("after")),
    "commit": in_turn(commits("after"), commits("on side", branch=SIDE)),
    "sweep": sweeps_twice,
    "reset": in_turn(resets(), resets(SIDE)),
    "merge": merges,
    "create again": recreates,
}

# It shares no divisor with the number of follow-ups, so all are met.
ONE_IN = counted(11, 1)


def test_a_committer_may_die_at_any_call(record_property: Any) -> None:
    reached = 0
    for name, act in OPERATIONS.items():
        for atomic in (None, False):
            dying = scenario(name, {"s1": [act]}, faults=NO_FAULTS, atomic_apply=atomic)
            report = crash_sweep(dying, FOLLOW_UPS, late=True, one_in=ONE_IN)
            reached += report.reached
            print(report.line())
    record_property("counted", f"crash sweep of staged files: {reached} crashes reached")
    assert reached >= counted(600, 7_000)
