"""Several processes on one schema: one winner for each row, and nothing lost when one is killed."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from lochan.testing.contracts.crash import KilledWriter
from lochan.testing.contracts.sample_rows import create, fetch
from lochan.testing.postgres import PostgresServer
from tests.architecture.tree import ROOT
from tests.stores.postgres.conftest import Open

ROUNDS = 150
KILLS = 8


def test_of_two_processes_exactly_one_creates_each_row(
    opened: Open, server: PostgresServer, schema: str
) -> None:
    store = opened()
    create(store, b"counter", b"0")
    command = [sys.executable, "-m", "tests.stores.postgres.racer", server.url(schema=schema)]
    racers = [
        subprocess.Popen(
            [*command, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    wins = [0, 0]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for number in range(ROUNDS):
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{number}\n")
            racer.stdin.flush()
        won = [int(racer.stdout.readline()) for racer in racers if racer.stdout]
        assert sum(won) == 1, f"round {number}: {won}"
        winner = won.index(1)
        wins[winner] += 1
        assert fetch(store, b"round %d" % number).value == (b"left", b"right")[winner]
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0
    print(f"{ROUNDS} rounds, wins {wins}")
    assert int(fetch(store, b"counter").value) == 2 * ROUNDS


class PatientKilledWriter(KilledWriter):
    """Looks only after the statements of the killed process are over: they outlive it."""

    def __init__(self, url: str, seed: int, database: psycopg.Connection) -> None:
        super().__init__(url, seed)
        self._database = database

    def _acknowledgements(self, first: int) -> list[tuple[int, bytes]]:
        acknowledged = super()._acknowledgements(first)
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'writer'"
        while self._database.execute(query).fetchone() != (0,):
            pass
        return acknowledged


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_killed_process(
    server: PostgresServer, schema: str, database: psycopg.Connection
) -> None:
    url = server.url(schema=schema, application_name="writer")
    writer = PatientKilledWriter(url, 3, database)
    for _ in range(KILLS):
        writer.run_and_kill()
    writer.check_all()
    assert writer.acknowledged > KILLS
