"""Tombstones are purged while others create and delete the same name, under lost replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lochan.base.ids import EMPTY_ID
from lochan.base.limits.storage import GRACE_S
from lochan.kernel import purge
from lochan.kernel.check import check_repository
from lochan.kernel.provenance import Initiator
from lochan.kernel.purge import sweep_references
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kernel.reflog import RefLog
from lochan.kv.store import Kind, Won, partition
from lochan.persist.references import References
from lochan.testing.invariants import all_rows
from lochan.testing.sim import (
    NO_FAULTS,
    Faults,
    History,
    Server,
    World,
    crash_sweep,
    explore,
)
from tests.profile import counted
from tests.sim.kernel_scenarios import (
    CHECKS,
    NAMES,
    creates,
    deletes,
    in_turn,
    parts_of,
    reads,
    recovered,
    scenario,
    set_up,
)
from tests.sim.mutants import find_violation

SCHEDULES = counted(150, 1_500)
NAME = NAMES[2]
HOURS_US = 3_600 * 1_000_000


def with_an_old_tombstone(server: Server) -> Any:
    """The usual repository, and a name that was deleted more than a day ago."""
    prepared = set_up(server)
    names = ReferenceIndex(parts_of(server, prepared))
    server.clock.jump_us(-30 * HOURS_US)
    names.create_many([NewReferenceRow(NAME, "BRANCH", EMPTY_ID)], Initiator("old"))
    names.delete(NAME, EMPTY_ID, Initiator("old"))
    server.clock.jump_us(30 * HOURS_US)
    # As if the copies had been lost: then only the purge can make them.
    place = partition(prepared[0], Kind.LOG)
    for entry in server.store.scan(place, b"", None, 100).entries:
        server.store.delete(place, entry.key)
    return prepared


def purges(server: Server) -> None:
    server.attempt("purge", sweep_references, server.app.context, server.app.names)


def the_log_is_whole(world: World, history: History) -> None:
    """All incarnations are in the ref-log, whether their row is there or not."""
    context = recovered(world)
    entries = RefLog(context).page(NAME, 1_000).items
    assert [one.kind for one in entries if one.who == "old"] == ["delete", "create"]
    known = {one.operation for one in entries}
    for event in history.acknowledged("create", "delete"):
        rows: Any = event.result if isinstance(event.result, list) else [event.result]
        assert {row.operation.hex() for row in rows} <= known, "a move is missing"


def no_young_row_is_gone(world: World, history: History) -> None:
    """A server that has just deleted or created a name finds its row, live or deleted."""
    rows = all_rows(recovered(world))
    if history.acknowledged("create", "delete"):
        assert NAME in rows, "a young row was purged"


def nothing_is_damaged(world: World, history: History) -> None:
    assert not check_repository(recovered(world)).damaged


MORE = {
    **CHECKS,
    "log": the_log_is_whole,
    "young rows": no_young_row_is_gone,
    "check": nothing_is_damaged,
}

SCENARIO = replace(
    scenario(
        "purge beside create and delete",
        {
            "s1": [in_turn(purges, reads(NAME))],
            "s2": [in_turn(creates(NAME), deletes(NAME))],
            "s3": [in_turn(purges, creates(NAME))],
        },
        checks=MORE,
        faults=Faults(lost_reply=0.12, late=0.1, not_applied=0.03, most=3),
    ),
    setup=with_an_old_tombstone,
)


def test_every_promise_holds_under_every_schedule():
    report = explore(SCENARIO, schedules=SCHEDULES)
    print(report.line())
    assert report.schedules == SCHEDULES
    assert report.lost_replies > SCHEDULES / 20


def test_a_crash_at_any_call_of_a_purge_loses_nothing():
    calm = replace(
        scenario("purge", {"s1": [purges]}, faults=NO_FAULTS, checks=MORE),
        setup=with_an_old_tombstone,
    )
    report = crash_sweep(
        calm, {"purge": purges, "create": creates(NAME), "read": reads(NAME)}, late=True
    )
    print(report.line())
    assert report.reached > 30


def removes_blindly(patch: pytest.MonkeyPatch) -> None:
    def remove(self, found):
        self._store.delete(self._place, found.row.name.encode())
        return Won(found.stamp)

    patch.setattr(References, "remove", remove)


def heeds_no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purge, "GRACE_S", -GRACE_S)


def copies_nothing(patch: pytest.MonkeyPatch) -> None:
    right = purge._purge

    def careless(context, names, found, listed):
        return right(context, names, replace_row(found), listed)

    patch.setattr(purge, "_purge", careless)


def replace_row(found: Any) -> Any:
    """The same row and stamp, as if there were no moves to copy."""
    return msgspec.structs.replace(found, row=msgspec.structs.replace(found.row, moves=()))


@pytest.mark.parametrize("mutant", [removes_blindly, heeds_no_grace, copies_nothing])
def test_the_explorer_finds(mutant, monkeypatch):
    mutant(monkeypatch)
    found = find_violation([SCENARIO], 2_000)
    print(f"{mutant.__name__}: found in schedule {found.seed}")
