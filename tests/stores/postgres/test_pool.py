"""A bounded number of connections: waiting for one ends, closing ends the waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest

from lochan.base.errors import StoreClosed, Unavailable
from lochan.kv.store import ABSENT, PRESENT, SetIf
from lochan.stores.postgres.pool import Pool
from lochan.stores.postgres.store import PostgresStore
from lochan.testing.contracts.concurrency import together
from lochan.testing.contracts.sample_rows import NOTHING, REFERENCES, create, fetch, must_win
from tests.stores.postgres.conftest import Open


def test_when_all_connections_are_busy_the_caller_gets_an_error_after_a_while(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(pool=1)
    assert isinstance(store, PostgresStore)
    monkeypatch.setattr(store._pool, "_wait_s", 0.05)
    create(store, b"main")
    held = store.hold(REFERENCES, b"main")
    with pytest.raises(Unavailable, match="all 1 connections"):
        store.get(REFERENCES, b"main")
    with pytest.raises(Unavailable, match="all 1 connections"):
        store.set_if(REFERENCES, b"other", b"", ABSENT)
    held.release()
    assert store.get(REFERENCES, b"other") is None


def test_holds_leave_connections_for_the_reads_of_their_callers(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(pool=4)
    assert isinstance(store, PostgresStore)
    monkeypatch.setattr(store._pool, "_wait_s", 0.05)
    create(store, b"main")
    for _ in range(3):
        holds = [store.hold(REFERENCES, b"%d" % number) for number in range(2)]
        for _ in range(2):
            with pytest.raises(Unavailable, match="all 2 holds"):
                store.hold(REFERENCES, b"main")
        assert fetch(store, b"main").value == b"value"
        must_win(holds[0].apply(NOTHING, SetIf(REFERENCES, b"main", b"value", PRESENT)))
        holds[1].release()


def test_more_threads_than_connections_share_them(
    opened: Open, database: psycopg.Connection
) -> None:
    store = opened(pool=2, application_name="shared")

    def work(number: int) -> None:
        for turn in range(20):
            must_win(store.set_if(REFERENCES, b"%d/%d" % (number, turn), b"", ABSENT))

    together(8, work)
    count = database.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shared'"
    ).fetchone()
    assert count is not None
    assert 1 <= count[0] <= 2


def test_closing_refuses_waiting_callers_and_ends_holds(opened: Open) -> None:
    store = opened(pool=1)
    create(store, b"main", b"one")
    held = store.hold(REFERENCES, b"main")
    assert isinstance(store, PostgresStore)
    waiting = Event()
    original = Pool._take_place

    def announced(pool: Pool, *, to_hold: bool) -> None:
        waiting.set()
        original(pool, to_hold=to_hold)

    with ThreadPoolExecutor(1) as thread, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "_take_place", announced)
        call = thread.submit(store.get, REFERENCES, b"main")
        assert waiting.wait(20)
        store.close()
        with pytest.raises(StoreClosed):
            call.result()
    with pytest.raises(Unavailable):
        held.apply(NOTHING, SetIf(REFERENCES, b"main", b"two", fetch(opened(), b"main").stamp))
    held.release()
    assert fetch(opened(), b"main").value == b"one"


def test_no_connection_outlives_the_store(opened: Open, database: psycopg.Connection) -> None:
    store = opened(pool=6, application_name="mortal")
    holds = [store.hold(REFERENCES, b"%d" % number) for number in range(3)]
    holds[0].release()
    store.close()
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mortal'"
    while database.execute(query).fetchone() != (0,):
        pass
