"""Every class of error, provoked on a real server: each states whether something was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from lochan.base.errors import Bug, Corrupt, LochanError, Unavailable, Unknown
from lochan.kv.store import PRESENT, Adds, SetIf, Store
from lochan.stores.postgres.failures import read_failure, write_failure
from lochan.stores.postgres.hold import LockedRow
from lochan.stores.postgres.store import PostgresStore
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, fetch, must_win
from lochan.testing.postgres import PostgresServer
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.witness import Witness

ROW = SetIf(REFERENCES, b"main", b"two", PRESENT)

WRITES: dict[str, Callable[[Store], object]] = {
    "set_if": lambda store: store.set_if(REFERENCES, b"main", b"two", PRESENT),
    "apply": lambda store: store.apply(Adds([(OBJECTS, b"object", b"")], 1), ROW),
    "delete": lambda store: store.delete(REFERENCES, b"main"),
    "delete_if": lambda store: store.delete_if(REFERENCES, b"main", PRESENT),
    "put_many": lambda store: store.put_many([(REFERENCES, b"main", b"two")]),
    "drop_partition": lambda store: store.drop_partition(REFERENCES),
}
READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(REFERENCES, b"main"),
    "get_many": lambda store: store.get_many([(REFERENCES, b"main"), (OBJECTS, b"object")]),
    "scan": lambda store: store.scan(REFERENCES, b"", None, 10),
    "hold": lambda store: store.hold(REFERENCES, b"main"),
}


@contextmanager
def locked(server: PostgresServer, schema: str) -> Iterator[psycopg.Connection]:
    """Another connection has the row locked and keeps it."""
    with psycopg.connect(server.url()) as other:
        query = f'SELECT FROM "{schema}".rows WHERE key = %s FOR UPDATE'.encode()
        other.execute(query, (b"main",))
        yield other
        other.rollback()


@pytest.mark.parametrize("call", [*WRITES.values(), READS["hold"]], ids=[*WRITES, "hold"])
@pytest.mark.parametrize(
    ("parameters", "state"),
    [
        ({"lock_timeout_ms": 20}, "55P03"),
        ({"statement_timeout_ms": 20, "lock_timeout_ms": 9_000}, "57014"),
    ],
)
def test_a_time_out_wrote_nothing_and_the_connection_stays(
    opened: Open,
    server: PostgresServer,
    schema: str,
    call: Callable[[Store], object],
    parameters: dict[str, int],
    state: str,
) -> None:
    create(opened(pool=1), b"main", b"one")
    store = opened(pool=1, **parameters)
    with locked(server, schema):
        for _ in range(2):
            with pytest.raises(Unavailable, match=state):
                call(store)
    assert fetch(store, b"main").value == b"one"
    assert store.get(OBJECTS, b"object") is None


def test_a_deadlock_wrote_nothing(
    opened: Open, server: PostgresServer, schema: str, database: psycopg.Connection
) -> None:
    store = opened(options="-c deadlock_timeout=500ms", application_name="victim")
    create(store, b"main", b"one")
    store.add_many(Adds([(OBJECTS, b"a", b""), (OBJECTS, b"b", b"")], 1))
    witness = Witness(database, schema, "victim")
    with ThreadPoolExecutor(1) as thread, psycopg.connect(server.url()) as other:
        other.execute("SET LOCAL deadlock_timeout = '30s'")
        other.execute(f"DELETE FROM \"{schema}\".objects WHERE key = 'b'".encode())
        adds = Adds([(OBJECTS, b"a", b""), (OBJECTS, b"b", b"")], 2)
        waits = thread.submit(store.apply, adds, ROW)
        witness.wait_until_one_waits()
        other.execute(f"UPDATE \"{schema}\".rows SET half_day = 1 WHERE key = 'main'".encode())
        with pytest.raises(Unavailable, match="40P01"):
            waits.result()
        other.rollback()
    assert fetch(store, b"main").value == b"one"
    assert fetch(store, b"a", OBJECTS).half_day == 1


def test_a_serialization_failure_wrote_nothing(
    opened: Open, server: PostgresServer, schema: str, database: psycopg.Connection
) -> None:
    store = opened(pool=1, application_name="victim")
    create(store, b"main", b"one")
    assert isinstance(store, PostgresStore)
    session = store._pool.take()
    session._connection.execute("SET default_transaction_isolation = 'repeatable read'")
    store._pool.give(session)
    witness = Witness(database, schema, "victim")
    with ThreadPoolExecutor(1) as thread, locked(server, schema) as other:
        waits = thread.submit(WRITES["set_if"], store)
        witness.wait_until_one_waits()
        other.execute(f"UPDATE \"{schema}\".rows SET half_day = 9 WHERE key = 'main'".encode())
        other.commit()
        with pytest.raises(Unavailable, match="40001"):
            waits.result()
    assert fetch(store, b"main").value == b"one"


@pytest.mark.parametrize(
    ("call", "error"),
    [*((call, Unknown) for call in WRITES.values()), (READS["hold"], Unavailable)],
    ids=[*WRITES, "hold"],
)
def test_a_terminated_backend_leaves_writes_unknown(
    opened: Open,
    server: PostgresServer,
    schema: str,
    database: psycopg.Connection,
    call: Callable[[Store], object],
    error: type[LochanError],
) -> None:
    store = opened(pool=1, application_name="victim")
    create(store, b"main", b"one")
    witness = Witness(database, schema, "victim")
    with ThreadPoolExecutor(1) as thread, locked(server, schema):
        waits = thread.submit(call, store)
        witness.wait_until_one_waits()
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            ("victim",),
        )
        # In a pipeline the driver sees the end of the connection first.
        with pytest.raises(error, match=r"57P01|closed the connection"):
            waits.result()
    assert fetch(store, b"main").value == b"one", "and the store connects again"


def test_a_connection_that_died_while_idle_is_replaced(
    opened: Open, database: psycopg.Connection
) -> None:
    store = opened(application_name="victim")
    stamp = create(store, b"main")
    for number in range(3):
        ended = database.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'victim'"
        ).fetchall()
        assert ended == [(True,)]
        outcome = store.set_if(REFERENCES, b"main", b"%d" % number, stamp)
        stamp = fetch(store, b"main").stamp
        assert outcome.stamp == stamp  # type: ignore[union-attr]


@pytest.mark.parametrize("way", Way)
def test_a_cut_read_had_no_effect_and_a_cut_write_is_unknown(
    opened: Open, wire: FaultyWire, way: Way
) -> None:
    direct = opened(pool=1)
    store = opened(port=wire.port, pool=1)
    adding = {"add_many": lambda store: store.add_many(Adds([(OBJECTS, b"a", b"")], 1))}
    for calls, error in ((READS, Unavailable), (WRITES | adding, Unknown)):
        for name, call in calls.items():
            direct.put_many([(REFERENCES, b"main", b"one")])
            warm = call(store)
            if name == "hold":
                assert isinstance(warm, LockedRow)
                warm.release()
            wire.plan(WireFault.CUT, way, 3)
            with pytest.raises(error):
                call(store)
            assert wire.happened.is_set(), name
    assert store.get_many([(OBJECTS, b"a")]) != [None]


@pytest.mark.slow
@pytest.mark.parametrize("way", Way)
def test_a_black_hole_is_left_by_the_watchdog(opened: Open, wire: FaultyWire, way: Way) -> None:
    direct = opened(pool=1)
    create(direct, b"main", b"one")
    store = opened(port=wire.port, pool=2, statement_timeout_ms=50)
    # Prepared beforehand, or the hole would swallow the preparation.
    must_win(store.set_if(REFERENCES, b"main", b"one", PRESENT))
    wire.plan(WireFault.DROP, way, 0)
    with pytest.raises(Unknown):
        store.set_if(REFERENCES, b"main", b"two", PRESENT)
    assert wire.happened.is_set()
    expected = b"two" if way is Way.TO_CLIENT else b"one"
    assert fetch(direct, b"main").value == expected
    assert fetch(store, b"main").value == expected, "a fresh connection works"


def test_bytes_that_come_late_are_no_failure(opened: Open, wire: FaultyWire) -> None:
    store = opened(port=wire.port, pool=1)
    create(store, b"main", b"one")
    wire.plan(WireFault.DELAY, Way.TO_CLIENT, 5)
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(fetch, store, b"main")
        assert wire.happened.wait(20)
        assert not call.done()
        wire.release()
        assert call.result().value == b"one"


def test_lost_tables_are_damage(opened: Open, schema: str, database: psycopg.Connection) -> None:
    store = opened()
    create(store, b"main")
    database.execute(f'DROP TABLE "{schema}".rows'.encode())
    for call in (READS["get"], READS["scan"], WRITES["set_if"]):
        with pytest.raises(Corrupt, match="lost tables"):
            call(store)


def test_a_read_only_server_is_unavailable_for_writes(opened: Open) -> None:
    create(opened(), b"main", b"one")
    store = opened(options="-c default_transaction_read_only=on")
    assert fetch(store, b"main").value == b"one"
    with pytest.raises(Unavailable, match="25006"):
        store.set_if(REFERENCES, b"main", b"two", PRESENT)
    with pytest.raises(Unavailable, match="25006"):
        store.hold(REFERENCES, b"main")


@pytest.mark.parametrize(
    ("state", "reading", "writing"),
    [
        ("40001", Unavailable, Unavailable),
        ("40P01", Unavailable, Unavailable),
        ("57014", Unavailable, Unavailable),
        ("55P03", Unavailable, Unavailable),
        ("25P03", Unavailable, Unavailable),
        ("53100", Unavailable, Unavailable),
        ("42501", Unavailable, Unavailable),
        ("40003", Unavailable, Unknown),
        ("08006", Unavailable, Unknown),
        ("08P01", Unavailable, Unknown),
        ("57P01", Unavailable, Unknown),
        ("57P02", Unavailable, Unknown),
        ("57P03", Unavailable, Unknown),
        ("57P05", Unavailable, Unknown),
        ("XX001", Corrupt, Corrupt),
        ("42P01", Corrupt, Corrupt),
        ("42601", Bug, Bug),
        ("22021", Bug, Bug),
    ],
)
def test_the_state_decides_and_a_broken_connection_decides_first(
    state: str, reading: type[LochanError], writing: type[LochanError]
) -> None:
    error = psycopg.errors.lookup(state)("message")
    assert type(read_failure(error)) is reading
    assert type(write_failure(error, broken=False)) is writing
    broken = type(write_failure(error, broken=True))
    # Rolled back for being idle: the statement was never read, although the connection is gone.
    assert broken is (Unavailable if state == "25P03" else Unknown)


def test_an_error_without_a_state_is_unknown() -> None:
    error = psycopg.OperationalError("server closed the connection unexpectedly\n\tthis is odd")
    assert type(write_failure(error, broken=False)) is Unknown
    assert type(read_failure(error)) is Unavailable
    assert "\n" not in read_failure(error).message
