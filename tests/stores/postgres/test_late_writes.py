"""A statement that outlives its client: cut while it waits for a row, it may take effect later."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lochan.base.errors import Unknown
from lochan.kv.store import Adds, Lost, SetIf, Won
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, fetch, must_win
from lochan.testing.postgres import PostgresServer
from lochan.testing.tcp_faults import FaultyWire
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.witness import Witness, attempt, resolve

TRIALS = 7


@pytest.mark.parametrize("then", ["the late write first", "both wait", "a rival first"])
def test_a_publish_cut_while_waiting_for_the_row_is_settled_once(
    opened: Open,
    server: PostgresServer,
    wire: FaultyWire,
    database: psycopg.Connection,
    schema: str,
    then: str,
) -> None:
    direct = opened(pool=2, application_name="victim")
    victim = opened(port=wire.port, pool=1, application_name="victim")
    create(direct, b"main", b"start")
    witness = Witness(database, schema, "victim")
    late = settled_won = 0
    for number in range(TRIALS):
        value = b"%06d" % number
        adds = Adds([(OBJECTS, value, b"body")], 1)
        row = SetIf(REFERENCES, b"main", value, fetch(direct, b"main").stamp)
        victim.get(REFERENCES, b"main")
        with ThreadPoolExecutor(2) as threads, psycopg.connect(server.url()) as other:
            query = f"SELECT FROM \"{schema}\".rows WHERE key = 'main' FOR UPDATE".encode()
            other.execute(query)
            first = threads.submit(attempt, victim, adds, row)
            witness.wait_until_one_waits()
            wire.cut_now()
            assert isinstance(first.result(), Unknown)
            assert fetch(direct, b"main").stamp == row.expected, "a read does not find it"
            if then == "both wait":
                again = threads.submit(resolve, direct, adds, row)
                witness.wait_until_one_waits(2)
                other.rollback()
                outcome = again.result()
            else:
                if then == "a rival first":
                    other.execute(
                        f"UPDATE \"{schema}\".rows SET value = 'rival', "
                        f"stamp = nextval('\"{schema}\".stamps') WHERE key = 'main'".encode()
                    )
                other.commit()
                witness.wait_until_quiet()
                late += fetch(direct, b"main").value == value
                outcome = resolve(direct, adds, row)
        settled_won += isinstance(outcome, Won)
        assert isinstance(outcome, Lost if then == "a rival first" else Won)
    witness.wait_until_quiet()
    effects = [witness.effects(b"main")[b"%06d" % number] for number in range(TRIALS)]
    objects = direct.get_many([(OBJECTS, b"%06d" % number) for number in range(TRIALS)])
    print(
        f"{then}: {TRIALS} cut, {late} took effect after the read, {settled_won} settled as won, "
    )
    print(f"{sum(count > 1 for count in effects)} duplicates")
    expected = 0 if then == "a rival first" else 1
    assert effects == [expected] * TRIALS
    assert [entry is not None for entry in objects] == [bool(expected)] * TRIALS
    if then == "the late write first":
        assert late == TRIALS, "a statement without a client must have taken effect"


def test_a_late_write_that_creates_a_row_takes_effect_once(
    opened: Open,
    server: PostgresServer,
    wire: FaultyWire,
    schema: str,
    database: psycopg.Connection,
) -> None:
    direct = opened(pool=1, application_name="victim")
    victim = opened(port=wire.port, pool=1, application_name="victim")
    stamp = create(direct, b"gone", b"")
    witness = Witness(database, schema, "victim")
    row = SetIf(REFERENCES, b"gone", b"late", stamp)
    with ThreadPoolExecutor(1) as thread, psycopg.connect(server.url()) as other:
        other.execute(f"DELETE FROM \"{schema}\".rows WHERE key = 'gone'".encode())
        first = thread.submit(attempt, victim, Adds([], 0), row)
        witness.wait_until_one_waits()
        wire.cut_now()
        assert isinstance(first.result(), Unknown)
        other.commit()
    witness.wait_until_quiet()
    assert direct.get(REFERENCES, b"gone") is None, "what was deleted does not come back"
    must_win(direct.delete_if(REFERENCES, b"gone", create(direct, b"gone", b"again")))
