"""Errors that one node does not make, in the bytes of the protocol; also those of ScyllaDB."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionShutdown

from lochan.base.errors import (
    Bug,
    Corrupt,
    Exhausted,
    LochanError,
    StoreClosed,
    Unavailable,
    Unknown,
)
from lochan.kv.store import ABSENT, PRESENT, Item, Lost, Partition, SetIf, Stamp, Won
from lochan.stores.cassandra.objects import add_objects
from lochan.stores.cassandra.partitions import Partitions
from lochan.stores.cassandra.rows import is_applied, read_outcome
from lochan.stores.cassandra.statements import TableStatement
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES
from tests.stores.cassandra.recorded import (
    LOCAL_SERIAL,
    QUORUM,
    SERIAL,
    outcome_unknown,
    read_failure,
    read_timeout,
    recorded,
    refused,
    too_few,
    write_failure,
    write_timeout,
)

ITEMS: list[Item] = [(Partition(OBJECTS + b"%d" % n), b"%d" % n, b"body") for n in range(3)]
WON = [{"[applied]": True}]
SWAP = SetIf(REFERENCES, b"main", b"head", Stamp(b"s" * 16))
VALUES = (b"head", b"t" * 16, REFERENCES, b"main", b"s" * 16)


@pytest.mark.parametrize(
    ("error", "read", "write"),
    [
        # Counted before the first message of Paxos; after it the proposal may be accepted.
        (too_few(SERIAL), Unavailable, Unavailable),
        (too_few(LOCAL_SERIAL), Unavailable, Unavailable),
        (too_few(QUORUM), Unavailable, Unknown),
        (write_timeout(SERIAL, "CAS"), Unavailable, Unknown),
        (write_timeout(QUORUM, "SIMPLE"), Unavailable, Unknown),
        (write_failure(SERIAL, "CAS"), Unavailable, Unknown),
        (read_timeout(SERIAL), Unavailable, Unknown),
        (read_failure(SERIAL), Unavailable, Unknown),
        (outcome_unknown(), Unavailable, Unknown),
        (refused(0x0000), Unavailable, Unknown),
        (refused(0x1001, "Request shed"), Exhausted, Exhausted),
        # ScyllaDB may have too many hints when it commits.
        (refused(0x1001, "Too many in flight hints: 10"), Exhausted, Unknown),
        (refused(0x1002), Unavailable, Unavailable),
        # ScyllaDB's limit by partition has a code that the driver need not know.
        (refused(0x4321, "Per-partition rate limit reached", b"\1\1"), Unavailable, Unknown),
        (refused(0x2100, "no permission"), Unavailable, Unavailable),
        (refused(0x2000, "syntax"), Bug, Bug),
        (refused(0x2200, "a value is too large"), Bug, Bug),
        (refused(0x2200, "unconfigured table lochan"), Corrupt, Corrupt),
        (OperationTimedOut(), Unavailable, Unknown),
        (ConnectionShutdown("closed"), Unavailable, Unknown),
    ],
    ids=str,
)
def test_the_error_decides(
    error: Exception, read: type[LochanError], write: type[LochanError]
) -> None:
    with recorded(error) as (client, session):
        with pytest.raises(read) as caught:
            client.read(TableStatement.ROW, REFERENCES, b"main")
        assert type(caught.value) is read
        with pytest.raises(write) as caught:
            client.write(TableStatement.SWAP, *VALUES)
        assert type(caught.value) is write
        assert len(session.requests) == 2, "each is sent once"


def test_what_reached_no_node_was_not_written() -> None:
    for error in (NoHostAvailable("none", {}), OperationTimedOut()):
        with recorded(error, reached=False) as (client, _), pytest.raises(Unavailable):
            client.write(TableStatement.SWAP, *VALUES)
    with recorded(NoHostAvailable("none", {})) as (client, _), pytest.raises(Unknown):
        client.write(TableStatement.SWAP, *VALUES)


def test_objects_are_added_at_once_and_a_part_of_them_is_unknown() -> None:
    with recorded(WON, too_few(SERIAL), WON) as (client, session):
        with pytest.raises(Unknown, match="a part was written"):
            add_objects(client, ITEMS, 1)
        assert len(session.requests) == 3
    with recorded(too_few(SERIAL)) as (client, _), pytest.raises(Unavailable):
        add_objects(client, ITEMS, 1)
    with recorded(WON, write_timeout(SERIAL, "CAS"), WON) as (client, _), pytest.raises(Unknown):
        add_objects(client, ITEMS, 1)


def test_an_object_that_another_caller_renews_all_the_time_is_unknown() -> None:
    there: Any = [{"[applied]": False, "s": b"other", "h": 0, "v": b"body"}]
    with recorded(there) as (client, session):
        with pytest.raises(Unknown, match="all the time"):
            add_objects(client, ITEMS[:1], 1)
        assert len(session.requests) == 16


def test_two_objects_of_one_partition_are_never_on_the_way_together() -> None:
    where = ITEMS[0][0]
    items = [*ITEMS, (where, b"second", b"body"), (where, b"second", b"repeated")]
    with recorded(WON, WON, WON, too_few(SERIAL)) as (client, session):
        with pytest.raises(Unknown):
            add_objects(client, items, 1)
        assert [one.values[1] for one in session.requests] == [b"0", b"1", b"2", b"second"]


def test_answers_of_both_databases_state_the_outcome() -> None:
    stamp = Stamp(b"t" * 16)
    old = {"k": b"main", "v": b"old", "s": b"o" * 16, "h": 0}
    gone = dict.fromkeys(("k", "v", "s", "h"))
    # ScyllaDB returns the old row too if the condition held, and nulls for none.
    for answer in (
        [{"[applied]": True}],
        [{"[applied]": True, **old}],
        [{"[applied]": True, **gone}],
    ):
        assert read_outcome(SWAP, stamp, answer) == Won(stamp)
    create = SetIf(REFERENCES, b"main", b"head", ABSENT)
    replace = SetIf(REFERENCES, b"main", b"head", PRESENT)
    lost = read_outcome(create, stamp, [{"[applied]": False, **old}])
    assert isinstance(lost, Lost)
    assert lost.current is not None
    assert lost.current is not ABSENT
    assert read_outcome(replace, stamp, [{"[applied]": False, **gone}]) == Lost(ABSENT)
    assert read_outcome(SWAP, stamp, [{"[applied]": False, "s": None}]) == Lost(None)
    # ScyllaDB answers a batch with a row for each statement.
    assert is_applied([{"[applied]": True, **old}, {"[applied]": True, **gone}])
    for nothing in ([], [{"s": b"x"}], [{"[applied]": None}]):
        with pytest.raises(Unknown):
            is_applied(nothing)


def test_a_partition_is_doubtful_until_a_round_of_paxos_has_ended() -> None:
    partitions = Partitions()
    with pytest.raises(Unknown), partitions.turn(REFERENCES):
        raise Unknown("timed out")
    assert partitions.is_doubtful(REFERENCES)
    with pytest.raises(Unavailable), partitions.turn(REFERENCES):
        raise Unavailable("not sent")
    assert partitions.is_doubtful(REFERENCES)
    with partitions.turn(REFERENCES):
        pass
    assert not partitions.is_doubtful(REFERENCES)


def test_writes_that_wait_for_one_turn_are_sent_together() -> None:
    partitions = Partitions()
    sent: list[list[bytes]] = []

    def send(changes: Sequence[SetIf]) -> dict[bytes, Any]:
        sent.append([one.key for one in changes])
        if b"3" in sent[-1]:
            raise Unknown("timed out")
        return {one.key: Won(Stamp(one.key)) for one in changes}

    def write(key: bytes) -> str:
        try:
            outcome = partitions.write([SetIf(REFERENCES, key, b"x", ABSENT)], send)[key]
        except Unknown as error:
            return error.message
        assert isinstance(outcome, Won)
        return outcome.stamp.decode()

    with ThreadPoolExecutor(8) as threads:
        with partitions.turn(REFERENCES):
            # The second write of one row needs a batch of its own.
            keys = (b"1", b"2", b"1", b"4")
            waiting = [threads.submit(write, key) for key in keys]
            while sum(len(one.changes) for one in _batches(partitions)) < 1:
                pass
        assert [one.result() for one in waiting] == ["1", "2", "1", "4"]
    assert sorted(key for keys in sent for key in keys) == [b"1", b"1", b"2", b"4"]
    assert write(b"3") == "timed out"
    assert partitions.is_doubtful(REFERENCES)
    assert not partitions._waiting


def _batches(partitions: Partitions) -> list[Any]:
    return list(partitions._waiting.values())


def test_a_closed_client_sends_nothing() -> None:
    with recorded(WON) as (client, session):
        client.close()
        with pytest.raises(StoreClosed):
            client.read(TableStatement.ROW, REFERENCES, b"main")
        assert not session.requests
