"""A database that is stopped under load and started again, below a server that goes on.

Clients write tables, files and references through one server. Its database is frozen, killed and
halted in turn. Meanwhile every request gets a reply: 503 if nothing happened, 504 if that is not
known. Afterwards every client writes again, without a restart of the server; nothing that was
acknowledged is lost, nothing is there twice, and nothing that was refused is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.http_load.processes import start_lochan
from lochan.client import Client
from tests.fleet.check import FleetCheck
from tests.fleet.databases import each_database, start_again, started, stop
from tests.fleet.operations import Recorded, prepare
from tests.fleet.runs import (
    running,
    wait_for_outage,
    wait_for_recovery,
    wait_for_writes,
)
from tests.fleet.status_counts import ANSWER_S, StatusCounts
from tests.profile import counted

CLIENTS = 12
MET = counted(6, CLIENTS)
"""So many clients meet each outage before it ends; the others get their replies later."""

WRITES = counted(200, 5_000)
"""Acknowledged writes of one round."""

ROUNDS = counted(1, 4)
"""Each has an empty store in the same database; 20,000 acknowledged writes in `deep`."""

BETWEEN = counted(100, 400)
"""Acknowledged writes between a recovery and the next stop."""


@each_database
def test_a_database_stopped_under_load_loses_nothing_and_does_nothing_twice(
    scheme: str, tmp_path: Path, record_property: Any
) -> None:
    with started(scheme) as (database, server):
        for number in range(ROUNDS):
            url = database.address(server, server.port)
            data = str(tmp_path / f"data-{number}")
            with start_lochan(url, tmp_path / f"server-{number}", "--data", data) as served:
                summary = _round(served.address, server, database.stops, number)
                served.check()
            record_property("counted", f"{scheme} stopped under load: {summary}")


def _round(address: str, server: Any, ways: Sequence[str], seed: int) -> str:
    """Runs one round on an empty store; returns what was done."""
    counts = StatusCounts()
    with Client(address, timeout_s=ANSWER_S, attempts_max=1, transport=counts) as client:
        recorded = prepare(client)
        with running([client], recorded, CLIENTS, seed):
            stops = _stop_again_and_again(server, ways, recorded)
        check = FleetCheck(client, recorded)
        check.run()
    assert not counts.unanswered, counts.unanswered[:5]
    assert not check.wrong, check.wrong[:5]
    assert counts.statuses[503], counts.summary()
    return f"{stops} stops; {check.summary()}; {counts.summary()}"


def _stop_again_and_again(server: Any, ways: Sequence[str], recorded: Recorded) -> int:
    """Stops the database in each way in turn until enough was written; returns how often."""
    for number, how in enumerate(cycle(ways), 1):
        wait_for_writes(recorded, recorded.acknowledged + BETWEEN)
        stop(server, how)
        try:
            wait_for_outage(recorded, MET)
        finally:
            start_again(server, how)
        wait_for_recovery(recorded, CLIENTS)
        if recorded.acknowledged >= WRITES and number >= len(ways):
            return number
    raise AssertionError("unreachable")
