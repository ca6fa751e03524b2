"""The table of a Cassandra store: who may use it, and what its statements do on a real node."""

from __future__ import annotations

import pytest

from lochan.assembly import open_store
from lochan.base.errors import Corrupt, InvalidUrl, NewerFormat, Unavailable
from lochan.kv.store import ABSENT, PRESENT, Lost, SetIf, Won
from lochan.kv.url import parse_store_url
from lochan.stores.cassandra.address import read_address
from lochan.stores.cassandra.client import CassandraClient
from lochan.stores.cassandra.statements import TableStatement
from lochan.stores.cassandra.store import CassandraStore
from lochan.testing.cassandra import GROUP, KEYSPACE, MISSING, CassandraServer, shared_server
from lochan.testing.contracts.concurrency import together
from lochan.testing.contracts.sample_rows import (
    NOTHING,
    OBJECTS,
    REFERENCES,
    create,
    fetch,
    must_win,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.fixture
def server() -> CassandraServer:
    return shared_server() or pytest.skip(MISSING)


def define(url: str, text: str) -> None:
    client = CassandraClient(read_address(parse_store_url(url)))
    client.define(text)
    client.close()


def test_a_table_of_a_newer_version_is_refused(server: CassandraServer) -> None:
    table = server.fresh_table()
    url = server.url(table=table)
    open_store(url).close()
    define(url, f"ALTER TABLE {KEYSPACE}.{table} WITH comment = 'Lochan store, version 2'")
    with pytest.raises(NewerFormat, match="version 2"):
        open_store(url)


def test_a_table_of_another_program_is_refused(server: CassandraServer) -> None:
    table = server.fresh_table()
    url = server.url(table=table)
    open_store(server.fresh_url()).close()
    define(url, f"CREATE TABLE {KEYSPACE}.{table} (p blob PRIMARY KEY)")
    with pytest.raises(InvalidUrl, match="another program"):
        open_store(url)


def test_several_may_create_the_table_at_once(server: CassandraServer) -> None:
    url = server.fresh_url()
    stores = []
    together(4, lambda number: stores.append(open_store(url)))
    for number, store in enumerate(stores):
        create(store, b"%d" % number)
    assert len(stores[0].scan(REFERENCES, b"", None, 10).entries) == 4
    for store in stores:
        store.close()


def test_a_table_that_was_deleted_is_corrupt_and_not_empty(server: CassandraServer) -> None:
    table = server.fresh_table()
    url = server.url(table=table)
    store = open_store(url)
    create(store, b"key")
    define(url, f"DROP TABLE {KEYSPACE}.{table}")
    with pytest.raises(Corrupt):
        store.get(REFERENCES, b"key")
    store.close()


def test_a_keyspace_is_created_in_the_named_datacenter_only(server: CassandraServer) -> None:
    keyspace = server.fresh_table()
    with pytest.raises((InvalidUrl, Unavailable)):
        open_store(server.url(keyspace, datacenter="elsewhere"))
    open_store(server.url(keyspace, serial="datacenter", replication=1)).close()
    store = open_store(server.url(keyspace))
    must_win(store.set_if(REFERENCES, b"key", b"x", ABSENT))
    store.close()


def test_a_wrong_password_is_no_absent_store(server: CassandraServer) -> None:
    with pytest.raises(Unavailable) as error:
        open_store(server.url(user="cassandra:hunter2secret"))
    assert "hunter2secret" not in str(error.value)


def test_changes_of_one_partition_are_one_round_of_paxos(
    server: CassandraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(server.fresh_url())
    assert isinstance(store, CassandraStore)
    sent: list[int] = []
    client = store._client
    batch, single = client.write_batch, client.write

    def write_batch(requests):
        sent.append(len(requests))
        return batch(requests)

    def write(statement: TableStatement, *values):
        sent.append(1)
        return single(statement, *values)

    monkeypatch.setattr(client, "write_batch", write_batch)
    monkeypatch.setattr(client, "write", write)
    changes = [(NOTHING, SetIf(REFERENCES, b"%d" % n, b"x", ABSENT)) for n in range(20)]
    assert all(isinstance(one, Won) for one in store.apply_each(changes))
    assert sent == [20]
    # One that loses is found by sending each by itself.
    again = [(NOTHING, SetIf(REFERENCES, b"%d" % n, b"y", PRESENT)) for n in range(3)]
    outcomes = store.apply_each([*again, changes[7]])
    assert [isinstance(one, Lost) for one in outcomes] == [False, False, False, True]
    assert sent == [20, 4, 1, 1, 1, 1]
    store.close()


def test_a_database_that_compares_absent_columns_otherwise_writes_them_too(
    server: CassandraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(server.fresh_url())
    assert isinstance(store, CassandraStore)
    stamp = create(store, b"old")
    no = [{"[applied]": False}]
    monkeypatch.setattr(store._client, "write_batch", lambda requests: no)
    store.put_many([(REFERENCES, b"old", b"new"), (REFERENCES, b"fresh", b"made")])
    assert fetch(store, b"old").value == b"new"
    assert fetch(store, b"old").stamp != stamp
    assert fetch(store, b"fresh").value == b"made"
    store.close()


def test_a_write_after_a_timeout_is_read_serially(
    server: CassandraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(server.fresh_url())
    assert isinstance(store, CassandraStore)
    create(store, b"key")
    serial: list[bool] = []
    read_all = store._client.read_all

    def counted(requests, *, serial_reads=serial, serial=False):
        serial_reads.append(serial)
        return read_all(requests, serial=serial)

    monkeypatch.setattr(store._client, "read_all", counted)
    store._partitions._doubtful.add(REFERENCES)
    for _ in range(2):
        assert fetch(store, b"key").value == b"value"
    store._partitions._doubtful.add(REFERENCES)
    for _ in range(2):
        assert len(store.scan(REFERENCES, b"", None, 10).entries) == 1
    assert store.get(OBJECTS, b"none") is None
    assert serial == [True, False, True, False, False]
    store.close()
