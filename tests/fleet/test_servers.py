"""Several servers on one database: bad wires, a server that is killed, a database that restarts.

Clients write tables, files and references through all servers and merge branches in both
directions. Each server reaches the database through a proxy that cuts, resets, delays, drops and
drips. One server is killed and started again, then the database is. At the end the history is that
of one plain model: what was acknowledged is there once, what was refused is not there at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.http_load.processes import Served, start
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.testing.jars import free_port
from lochan.testing.tcp_faults import FaultyWire
from tests.fleet.check import FleetCheck
from tests.fleet.databases import DATABASES, start_again, started, stop
from tests.fleet.operations import Recorded, prepare
from tests.fleet.runs import running, wait_for_outage, wait_for_recovery, wait_for_writes
from tests.fleet.status_counts import ANSWER_S, StatusCounts
from tests.fleet.wires import DrawnFaults
from tests.profile import counted

SERVERS = counted(2, 4)
CLIENTS = counted(8, 16)
WRITES = counted(300, 20_000)
FAULTS_APART_S = 1.5
LASTING_S = 0.4

STARTS_MAX = 10
STEP = 200
"""A wait for so many writes is short on every database, whatever the faults are."""

ON = ("cassandra", "postgresql")


class FleetServer:
    """One server of ours on a port that stays the same; `with` ends it."""

    def __init__(self, url: str, data: Path, folder: Path) -> None:
        self.port = free_port()
        self._command = [sys.executable, "-m", "lochan", "serve", "--store", url]
        self._command += ["--port", str(self.port), "--data", str(data)]
        self._folder = folder
        self._served = self._start()
        self.address = self._served.address

    def kill_and_restart(self) -> None:
        """Ends it in the middle of whatever it does, and starts it again.

        A server that meets a fault while it opens its store ends with the reason; it is started
        once more then, as a supervisor would do.
        """
        self._served.kill()
        for _ in range(STARTS_MAX - 1):
            with suppress(RuntimeError):
                self._served = self._start()
                return
        self._served = self._start()

    def check(self) -> None:
        """Raises if it has ended by itself."""
        self._served.check()

    def __enter__(self) -> FleetServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._served.stop()

    def _start(self) -> Served:
        return start("lochan", self._command, self._folder, self.port)


@contextmanager
def fleet(url: str, port: int, folder: Path) -> Iterator[tuple[list[FleetServer], list[Any]]]:
    """Starts servers on one store, each behind a wire of its own."""
    with ExitStack() as stack:
        wires = [stack.enter_context(FaultyWire(port)) for _ in range(SERVERS)]
        servers = []
        for number, wire in enumerate(wires):
            wired = url.replace(f":{port}/", f":{wire.port}/")
            assert wired != url
            server = FleetServer(wired, folder / "data", folder / f"server-{number}")
            servers.append(stack.enter_context(server))
        yield servers, wires


@pytest.mark.parametrize(
    "scheme", [pytest.param(one, marks=pytest.mark.xdist_group(one)) for one in ON]
)
def test_servers_on_one_database_have_one_history_through_faults_and_restarts(
    scheme: str, tmp_path: Path, record_property: Any
) -> None:
    assert scheme in DATABASES
    with started(scheme) as (database, server):
        url = database.address(server, server.port)
        with fleet(url, server.port, tmp_path) as (servers, wires), ExitStack() as stack:
            counts = [StatusCounts() for _ in servers]
            clients = [
                stack.enter_context(
                    Client(one.address, timeout_s=ANSWER_S, attempts_max=1, transport=count)
                )
                for one, count in zip(servers, counts, strict=True)
            ]
            recorded = prepare(clients[0])
            with (
                DrawnFaults(wires, 1, apart_s=FAULTS_APART_S, lasting_s=LASTING_S) as faults,
                running(clients, recorded, CLIENTS, 1),
            ):
                _wait(recorded, WRITES // 3)
                servers[0].kill_and_restart()
                _wait(recorded, 2 * WRITES // 3)
                stop(server, "halt")
                try:
                    wait_for_outage(recorded, counted(2, CLIENTS))
                finally:
                    start_again(server, "halt")
                wait_for_recovery(recorded, CLIENTS)
                _wait(recorded, WRITES)
            for one in servers:
                one.check()
            unanswered = [one for count in counts for one in count.unanswered]
        assert not unanswered, unanswered[:5]
        # The servers may still be connecting again, so the check reads past them.
        with open_repository(url, data=tmp_path / "data") as repository:
            check = FleetCheck(repository, recorded)
            check.run()
            assert not check.wrong, check.wrong[:5]
            assert not repository.check(history=True).findings
    assert faults.met
    record_property(
        "counted", f"{SERVERS} servers on {scheme}: {faults.summary()}; {check.summary()}"
    )


def _wait(recorded: Recorded, count: int) -> None:
    """Waits for so many acknowledged writes, some at a time."""
    while recorded.acknowledged < count:
        wait_for_writes(recorded, min(count, recorded.acknowledged + STEP))
