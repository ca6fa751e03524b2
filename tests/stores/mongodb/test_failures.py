"""Answers of MongoDB that the stand-in does not give, sent to pymongo over a socket."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.base.errors import (
    Bug,
    Exhausted,
    LochanError,
    StoreClosed,
    Unavailable,
    Unknown,
)
from lochan.kv.store import ABSENT, SetIf, Stamp
from lochan.stores.mongodb.documents import add_statement, set_statement
from lochan.stores.mongodb.statements import REPEATS_MAX, send_change, send_writes
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES
from tests.stores.mongodb.recorded import CUT, failed, recorded, refused, row_answer, unconfirmed

ADDS = [add_statement(OBJECTS, b"%d" % number, b"body", 1, b"m" * 16) for number in range(3)]
ROW: Any = set_statement(SetIf(REFERENCES, b"main", b"head", Stamp(b"s" * 20)), b"m" * 16)
NEW_ROW: Any = set_statement(SetIf(REFERENCES, b"main", b"head", ABSENT), b"m" * 16)
DUPLICATE = 11_000
FIND = {"find": "lochan", "filter": {"_id": 1}}


@pytest.mark.parametrize(
    ("code", "read", "write"),
    [
        (10_107, Unavailable, Unavailable),  # NotWritablePrimary
        (13_435, Unavailable, Unavailable),  # NotPrimaryNoSecondaryOk
        (13_436, Unavailable, Unavailable),  # NotPrimaryOrSecondary
        (13, Unavailable, Unavailable),  # Unauthorized
        (365, Exhausted, Exhausted),  # TemporarilyUnavailable
        (189, Unavailable, Unknown),  # PrimarySteppedDown
        (11_602, Unavailable, Unknown),  # InterruptedDueToReplStateChange
        (11_600, Unavailable, Unknown),  # InterruptedAtShutdown
        (91, Unavailable, Unknown),  # ShutdownInProgress
        (50, Unavailable, Unknown),  # MaxTimeMSExpired
        (64, Unavailable, Unknown),  # WriteConcernFailed
        (8_000, Unavailable, Unknown),  # AtlasError
        (2, Bug, Bug),  # BadValue
        (40_415, Bug, Bug),  # an unknown field
    ],
)
def test_the_code_decides(code: int, read: type[LochanError], write: type[LochanError]) -> None:
    with recorded(refused(code)) as (client, server):
        with pytest.raises(read):
            client.read(FIND, "majority")
        with pytest.raises(write):
            send_change(client, ADDS, ROW)
        assert [next(iter(command)) for command in server.commands] == ["find", "update"]


@pytest.mark.parametrize("code", [64, 91, 100, 189, 11_602, 50])
@pytest.mark.parametrize("n", [3, 4])
def test_a_write_that_the_majority_has_not_confirmed_is_unknown(code: int, n: int) -> None:
    with recorded(unconfirmed(code, n)) as (client, server):
        with pytest.raises(Unknown):
            send_change(client, ADDS, ROW)
        with pytest.raises(Unknown):
            send_writes(client, ADDS)
        assert len(server.commands) == 2
    duplicate = {"index": 3, "code": DUPLICATE, "errmsg": "recorded"}
    answer = unconfirmed(code, 3, writeErrors=[duplicate])
    with recorded(answer) as (client, _), pytest.raises(Unknown):
        send_change(client, ADDS, NEW_ROW)


def test_a_write_is_sent_once_and_a_lost_answer_is_unknown() -> None:
    with recorded(CUT) as (client, server):
        with pytest.raises(Unknown):
            send_change(client, ADDS, ROW)
        assert len(server.commands) == 1
        with pytest.raises(Unavailable):
            client.read(FIND, "majority")
        assert len(server.commands) == 2


def test_the_number_of_rows_decides_between_won_and_lost() -> None:
    with recorded(row_answer(4), row_answer(3), row_answer(2)) as (client, server):
        assert send_change(client, ADDS, ROW)
        assert not send_change(client, ADDS, ROW)
        with pytest.raises(Unknown):
            send_change(client, ADDS, ROW)
        first = server.commands[0]
    assert first["writeConcern"] == {"w": "majority", "j": True, "wtimeout": 7_000}
    assert first["ordered"] is True
    assert first["maxTimeMS"] == 8_000
    assert "txnNumber" not in first


def test_a_row_that_exists_is_lost() -> None:
    with recorded(failed(DUPLICATE, 3, 3)) as (client, server):
        assert not send_change(client, ADDS, NEW_ROW)
        assert len(server.commands) == 1


def test_an_object_that_another_caller_inserted_is_sent_again_with_what_follows() -> None:
    with recorded(failed(DUPLICATE, 1, 1), row_answer(3)) as (client, server):
        assert send_change(client, ADDS, ROW)
        assert [len(command["updates"]) for command in server.commands] == [4, 3]
    with recorded(failed(DUPLICATE, 0)) as (client, server):
        with pytest.raises(Unavailable):
            send_change(client, ADDS, ROW)
        assert len(server.commands) == REPEATS_MAX
        with pytest.raises(Unknown):
            send_writes(client, ADDS)


@pytest.mark.parametrize(
    ("code", "at", "change", "writes"),
    [
        (10_107, 0, Unavailable, Unavailable),
        (10_107, 2, Unavailable, Unknown),
        (11_602, 2, Unknown, Unknown),
        (365, 0, Exhausted, Exhausted),
        (365, 1, Exhausted, Unknown),
        (17_419, 1, Bug, Bug),
    ],
)
def test_a_statement_that_failed(
    code: int, at: int, change: type[LochanError], writes: type[LochanError]
) -> None:
    """The row is the last statement: an earlier one that was refused leaves it as it was."""
    with recorded(failed(code, at, at)) as (client, _):
        with pytest.raises(change):
            send_change(client, ADDS, ROW)
        with pytest.raises(writes):
            send_writes(client, ADDS)


def test_a_closed_client_sends_nothing() -> None:
    with recorded(row_answer(1)) as (client, server):
        client.close()
        with pytest.raises(StoreClosed):
            client.read(FIND)
        assert not server.commands
