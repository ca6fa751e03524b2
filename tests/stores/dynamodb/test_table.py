"""The table of a DynamoDB store, and connections to it that are cut at chosen bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from lochan.assembly import open_store
from lochan.base.errors import Corrupt, InvalidUrl, NewerFormat, Unavailable, Unknown
from lochan.base.ids import ObjId
from lochan.kernel.publish import Publisher
from lochan.kv.store import ABSENT, Adds, SetIf, Store, Won
from lochan.kv.url import parse_store_url
from lochan.stores.dynamodb import client as clients
from lochan.stores.dynamodb.address import read_address
from lochan.stores.dynamodb.client import DynamoClient
from lochan.stores.dynamodb.schema import _VERSION
from lochan.testing.contracts.concurrency import together
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, fetch, must_win
from lochan.testing.dynamodb import MISSING, DynamoServer, shared_server
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.profile import counted
from tests.stores.postgres.kernel_bench import MAIN, connect, publish, tally
from tests.stores.postgres.kernel_bench import create as create_repository

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dynamodb")]


@pytest.fixture
def server() -> DynamoServer:
    return shared_server() or pytest.skip(MISSING)


@pytest.fixture
def table(server: DynamoServer) -> str:
    return server.fresh_table()


@pytest.fixture
def direct(server: DynamoServer, table: str) -> Iterator[Store]:
    store = open_store(server.url(table))
    yield store
    store.close()


@pytest.fixture
def wire(server: DynamoServer) -> Iterator[FaultyWire]:
    with FaultyWire(server.port) as wire:
        yield wire


@pytest.fixture
def victim(server: DynamoServer, table: str, direct: Store, wire: FaultyWire) -> Iterator[Store]:
    store = open_store(server.url(table, port=wire.port, connections=1))
    yield store
    store.close()


def raw(server: DynamoServer, table: str) -> DynamoClient:
    return DynamoClient(read_address(parse_store_url(server.url(table))))


def test_a_table_of_a_newer_version_is_refused(server: DynamoServer, table: str) -> None:
    open_store(server.url(table)).close()
    item = {**_VERSION, "n": {"N": "2"}}
    raw(server, table).write("put_item", TableName=table, Item=item)
    with pytest.raises(NewerFormat, match="version 2"):
        open_store(server.url(table))


@pytest.mark.parametrize("kind", ["S", "B"])
def test_a_table_of_another_program_is_refused(server: DynamoServer, table: str, kind: str) -> None:
    client = raw(server, table)
    client.write(
        "create_table",
        TableName=table,
        KeySchema=[
            {"AttributeName": "p", "KeyType": "HASH"},
            {"AttributeName": "k", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "p", "AttributeType": "B"},
            {"AttributeName": "k", "AttributeType": kind},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    sort: Any = b"theirs" if kind == "B" else "theirs"
    client.write("put_item", TableName=table, Item={"p": {"B": b"x"}, "k": {kind: sort}})
    with pytest.raises(InvalidUrl, match="another program"):
        open_store(server.url(table))


def test_several_may_create_the_table_at_once(server: DynamoServer, table: str) -> None:
    stores: list[Store] = []
    together(4, lambda number: stores.append(open_store(server.url(table))))
    for number, store in enumerate(stores):
        create(store, b"%d" % number)
    assert len(stores[0].scan(REFERENCES, b"", None, 10).entries) == 4
    for store in stores:
        store.close()


def test_a_table_that_was_deleted_is_corrupt_and_not_empty(
    server: DynamoServer, table: str, direct: Store
) -> None:
    raw(server, table).write("delete_table", TableName=table)
    with pytest.raises(Corrupt):
        direct.get(REFERENCES, b"key")
    with pytest.raises(Corrupt):
        direct.scan(REFERENCES, b"", None, 10)


def test_repositories_share_a_table_and_one_is_erased_alone(direct: Store) -> None:
    direct.put_many([(REFERENCES, b"key", b"x"), (OBJECTS, b"key", b"y")])
    direct.drop_partition(REFERENCES)
    assert direct.get(REFERENCES, b"key") is None
    assert fetch(direct, b"key", OBJECTS).value == b"y"


def test_a_server_that_is_not_there_is_unavailable(server: DynamoServer, table: str) -> None:
    with FaultyWire(server.port) as gone:
        port = gone.port
    with pytest.raises(Unavailable):
        open_store(server.url(table, port=port))


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("objects", [0, 2])
def test_a_write_that_is_cut_is_unknown_or_won_and_takes_effect_once(
    victim: Store, direct: Store, wire: FaultyWire, way: Way, objects: int
) -> None:
    stamp = must_win(direct.set_if(REFERENCES, b"main", b"start", ABSENT))
    outcomes: Counter[str] = Counter()
    for turn, after in enumerate(range(0, 1_500, counted(60, 3))):
        victim.get(REFERENCES, b"main")
        value = b"%d" % turn
        adds = Adds([(OBJECTS, b"%d/%d" % (turn, at), b"body") for at in range(objects)], 1)
        wire.plan(WireFault.CUT, way, after)
        try:
            outcome = victim.apply(adds, SetIf(REFERENCES, b"main", value, stamp))
            outcomes[type(outcome).__name__] += 1
            assert isinstance(outcome, Won)
        except Unknown:
            outcomes["Unknown"] += 1
        wire.release()
        again = direct.apply(adds, SetIf(REFERENCES, b"main", value, stamp))
        entry = fetch(direct, b"main")
        # Sent twice with one expectation: one of the two has won, never both.
        assert entry.value == value
        assert not (isinstance(again, Won) and again.stamp != entry.stamp)
        assert all(direct.get(*item[:2]) for item in adds.items)
        stamp = entry.stamp
    assert outcomes["Unknown"] > 3
    assert set(outcomes) <= {"Unknown", "Won"}


@pytest.mark.parametrize("after", range(0, 700, counted(70, 7)))
def test_a_read_that_is_cut_is_unavailable_and_never_absent(
    victim: Store, direct: Store, wire: FaultyWire, after: int
) -> None:
    direct.put_many([(REFERENCES, b"%d" % number, b"x" * 40) for number in range(5)])
    names = [(REFERENCES, b"%d" % number) for number in range(5)]
    for read in (
        lambda: [victim.get(*names[0])] * 5,
        lambda: victim.get_many(names),
        lambda: victim.scan(REFERENCES, b"", None, 10).entries,
    ):
        wire.plan(WireFault.CUT, Way.TO_CLIENT, after)
        try:
            assert all(read())
            assert len(read()) == 5
        except Unavailable:
            pass
        wire.release()


def test_a_server_that_does_not_answer_is_given_up(
    server: DynamoServer, table: str, direct: Store, wire: FaultyWire, monkeypatch
) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT_S", 0.5)
    victim = open_store(server.url(table, port=wire.port, connections=1))
    wire.plan(WireFault.DROP, Way.TO_CLIENT, 0)
    with pytest.raises(Unknown):
        victim.set_if(REFERENCES, b"main", b"x", ABSENT)
    wire.release()
    assert fetch(direct, b"main").value == b"x"
    victim.close()


def test_publishes_over_a_wire_that_is_cut_take_effect_once(
    direct: Store, victim: Store, wire: FaultyWire
) -> None:
    random = Random(5)
    create_repository(direct)
    sent: set[str] = set()
    acknowledged: dict[str, ObjId] = {}
    publisher = Publisher(connect(victim), MAIN)
    for number in range(counted(40, 1_000)):
        name = f"op {number:05}"
        sent.add(name)
        if number % 2:
            wire.plan(WireFault.CUT, random.choice(list(Way)), random.randrange(2_500))
        try:
            acknowledged |= publish(publisher, [name])
        except (Unavailable, Unknown):
            continue
        finally:
            wire.release()
    found = tally(direct, acknowledged, sent)
    assert (found.losses, found.duplicates, found.strangers) == (0, 0, 0)
    assert found.acknowledged > len(sent) // 2
