"""Errors of DynamoDB that the emulator does not produce, as AWS documents them."""

from __future__ import annotations

import pytest
from botocore import exceptions

from lochan.base.errors import (
    Bug,
    Corrupt,
    Exhausted,
    InvalidUrl,
    LochanError,
    StoreClosed,
    Unavailable,
    Unknown,
)
from lochan.kv.store import ABSENT, Lost, SetIf, Stamp, Won
from lochan.kv.url import parse_store_url
from lochan.stores.dynamodb.address import read_address
from lochan.stores.dynamodb.batches import fetch_items, write_items
from lochan.stores.dynamodb.client import ATTEMPTS_MAX
from lochan.stores.dynamodb.items import item_key, row_item
from lochan.stores.dynamodb.names import ItemPlace
from lochan.stores.dynamodb.store import CAPABILITIES
from lochan.stores.dynamodb.transactions import add_objects, apply_change, set_row
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES
from tests.stores.dynamodb.recorded import cancelled, recorded, refused

ROW = SetIf(REFERENCES, b"main", b"head", ABSENT)
TWO = [(OBJECTS, b"a", b"1"), (OBJECTS, b"b", b"2")]
PLACES = [ItemPlace(b"\x00p", b"%d" % number) for number in range(3)]
PUTS = [{"PutRequest": {"Item": item_key(place)}} for place in PLACES]
THROTTLED = "ProvisionedThroughputExceededException"
CONDITION = "ConditionalCheckFailed"
CONFLICT = "TransactionConflict"


@pytest.mark.parametrize(
    ("code", "status", "read", "write"),
    [
        (THROTTLED, 400, Exhausted, Exhausted),
        ("ThrottlingException", 400, Exhausted, Exhausted),
        ("RequestLimitExceeded", 400, Exhausted, Exhausted),
        ("InternalServerError", 500, Unavailable, Unknown),
        ("ServiceUnavailable", 503, Unavailable, Unknown),
        ("", 502, Unavailable, Unknown),
        ("TransactionInProgressException", 400, Unavailable, Unknown),
        ("AccessDeniedException", 400, Unavailable, Unavailable),
        ("ExpiredTokenException", 400, Unavailable, Unavailable),
        ("UnrecognizedClientException", 400, Unavailable, Unavailable),
        ("ResourceNotFoundException", 400, Corrupt, Corrupt),
        ("ValidationException", 400, Bug, Bug),
    ],
)
def test_the_code_and_the_status_decide(
    code: str, status: int, read: type[LochanError], write: type[LochanError]
) -> None:
    client, _, _ = recorded(refused(code, status))
    with pytest.raises(read):
        client.read("get_item")
    with pytest.raises(write):
        client.write("put_item")


@pytest.mark.parametrize(
    ("error", "write"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="x"), Unavailable),
        (exceptions.ConnectTimeoutError(endpoint_url="x"), Unavailable),
        (exceptions.NoCredentialsError(), Unavailable),
        (exceptions.ReadTimeoutError(endpoint_url="x"), Unknown),
        (exceptions.ConnectionClosedError(endpoint_url="x"), Unknown),
        (exceptions.HTTPClientError(error="x"), Unknown),
    ],
)
def test_a_lost_answer_is_unknown_for_a_write_that_was_sent_and_it_is_sent_once(
    error: Exception, write: type[LochanError]
) -> None:
    client, stub, _ = recorded(error)
    with pytest.raises(Unavailable):
        client.read("get_item")
    with pytest.raises(write):
        set_row(client, ROW, Stamp(b"s"))
    with pytest.raises(write):
        apply_change(client, TWO, 1, ROW)
    assert [operation for operation, _ in stub.requests] == [
        "get_item",
        "put_item",
        "transact_write_items",
    ]


def test_throttling_is_waited_for_with_longer_sleeps_and_then_exhausted() -> None:
    client, stub, sleeps = recorded(refused(THROTTLED))
    with pytest.raises(Exhausted):
        set_row(client, ROW, Stamp(b"s"))
    assert len(stub.requests) == ATTEMPTS_MAX
    assert len(sleeps) == ATTEMPTS_MAX - 1
    bounds = [min(1.0, 0.02 * 2**turn) for turn in range(ATTEMPTS_MAX - 1)]
    assert all(0 <= sleep <= bound for sleep, bound in zip(sleeps, bounds, strict=True))


def test_a_throttled_write_that_is_accepted_later_has_won() -> None:
    client, _, sleeps = recorded(refused(THROTTLED), refused(THROTTLED), {})
    assert isinstance(set_row(client, ROW, Stamp(b"s")), Won)
    assert len(sleeps) == 2


def test_what_was_not_processed_of_a_bulk_write_is_sent_again() -> None:
    rest = {"UnprocessedItems": {"table": PUTS[1:]}}
    client, stub, _ = recorded(rest, rest, {"UnprocessedItems": {}})
    write_items(client, PUTS)
    sent = [arguments["RequestItems"]["table"] for _, arguments in stub.requests]
    assert sent == [PUTS, PUTS[1:], PUTS[1:]]


def test_a_bulk_write_that_ends_early_is_unknown_only_if_a_part_was_done() -> None:
    client, _, _ = recorded({"UnprocessedItems": {"table": PUTS}})
    with pytest.raises(Exhausted):
        write_items(client, PUTS)
    client, _, _ = recorded({"UnprocessedItems": {"table": PUTS[1:]}})
    with pytest.raises(Unknown):
        write_items(client, PUTS)
    client, _, _ = recorded({"UnprocessedItems": {"table": PUTS[1:]}}, refused(THROTTLED))
    with pytest.raises(Unknown):
        write_items(client, PUTS)


def test_keys_that_were_not_processed_are_read_again() -> None:
    items = [row_item(place, b"v", Stamp(b"s")) for place in PLACES]
    first = {
        "Responses": {"table": items[:1]},
        "UnprocessedKeys": {"table": {"Keys": [item_key(place) for place in PLACES[1:]]}},
    }
    client, stub, sleeps = recorded(first, {"Responses": {"table": items[1:]}})
    assert fetch_items(client, PLACES) == dict(zip(PLACES, items, strict=True))
    assert len(stub.requests) == 2
    assert not sleeps


def test_a_bulk_read_of_which_nothing_is_processed_is_exhausted_and_never_absent() -> None:
    keys = {"table": {"Keys": [item_key(PLACES[0])]}}
    client, _, _ = recorded({"Responses": {}, "UnprocessedKeys": keys})
    with pytest.raises(Exhausted):
        fetch_items(client, PLACES)


def test_a_conflict_of_transactions_is_waited_for() -> None:
    client, stub, sleeps = recorded(cancelled("None", CONFLICT, "None"), {})
    assert isinstance(apply_change(client, TWO, 1, ROW), Won)
    assert len(stub.requests) == 2
    assert len(sleeps) == 1
    client, _, _ = recorded(cancelled("None", CONFLICT))
    with pytest.raises(Exhausted):
        add_objects(client, TWO, 1)


def test_a_conflict_with_a_single_write_is_waited_for() -> None:
    client, _, sleeps = recorded(refused("TransactionConflictException"), {})
    assert isinstance(set_row(client, ROW, Stamp(b"s")), Won)
    assert len(sleeps) == 1


def test_a_row_that_is_not_as_expected_is_lost_whatever_the_other_reasons() -> None:
    there = row_item(ItemPlace(b"p", b"main"), b"theirs", Stamp(b"stamp"))
    client, stub, _ = recorded(cancelled(CONFLICT, CONDITION, CONDITION, item=there))
    outcome = apply_change(client, TWO, 1, ROW)
    assert isinstance(outcome, Lost)
    assert outcome.current is not None
    assert outcome.current is not ABSENT
    assert (outcome.current.key, outcome.current.value) == (b"main", b"theirs")
    assert len(stub.requests) == 1


def test_objects_that_exist_are_left_out_and_the_rest_is_sent() -> None:
    client, stub, sleeps = recorded(cancelled(CONDITION, "None", "None"), {})
    assert isinstance(apply_change(client, TWO, 1, ROW), Won)
    assert [len(arguments["TransactItems"]) for _, arguments in stub.requests] == [3, 2]
    assert not sleeps
    client, stub, _ = recorded(cancelled(CONDITION, CONDITION, "None"), {})
    assert isinstance(apply_change(client, TWO, 1, ROW), Won)
    assert [operation for operation, _ in stub.requests] == ["transact_write_items", "put_item"]


def test_a_lost_answer_after_a_cancelled_attempt_is_unknown() -> None:
    lost = exceptions.ReadTimeoutError(endpoint_url="x")
    client, stub, _ = recorded(cancelled(CONDITION, "None", "None"), lost)
    with pytest.raises(Unknown):
        apply_change(client, TWO, 1, ROW)
    assert len(stub.requests) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused("TransactionCanceledException"), Unavailable),
        (cancelled("None", "None", "ValidationError"), Bug),
        (cancelled("None", "ThrottlingError", "None"), Exhausted),
    ],
)
def test_other_reasons_of_a_cancelled_transaction(
    answer: Exception, error: type[LochanError]
) -> None:
    client, _, _ = recorded(answer)
    with pytest.raises(error):
        apply_change(client, TWO, 1, ROW)


def test_a_closed_client_sends_nothing() -> None:
    client, stub, _ = recorded({})
    client.close()
    with pytest.raises(StoreClosed):
        client.read("get_item")
    assert [operation for operation, _ in stub.requests] == ["close"]


def test_the_largest_item_is_below_the_limit_of_the_database() -> None:
    """An item has 400 KB with all its names; the largest value of ours still fits with the rest."""
    names = 2 * 255 + 1_024 + len("pkvsh") + 16 + 21
    assert CAPABILITIES.value_bytes_max + names < 400 * 1_024
    transaction = CAPABILITIES.batch_bytes_max + 100 * names
    assert transaction < 4 * 1_024 * 1_024


@pytest.mark.parametrize(
    "rest",
    [
        "table",
        "//eu-west-1",
        "//eu-west-1/",
        "//eu-west-1/ab",
        "//EU/table",
        "//user:secret@eu/table",
        "//eu/table?endpoint=ftp://x",
        "//eu/table?endpoint=http://user:secret@x",
        "//eu/table?endpoint=http://x:99999",
        "//eu/table?connections=0",
        "//eu/table?connections=x",
        "//eu/table?connections=1&connections=2",
        "//eu/table?profile=",
        "//eu/table?other=1",
    ],
)
def test_a_wrong_address_is_refused_and_shows_no_secret(rest: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        read_address(parse_store_url(f"dynamodb:{rest}"))
    assert "secret" not in str(caught.value)


def test_an_address_names_region_table_and_parameters() -> None:
    text = "dynamodb://eu-west-1/lochan?endpoint=http%3A%2F%2F127.0.0.1%3A8000&connections=4"
    address = read_address(parse_store_url(text))
    assert (address.region, address.table, address.connections) == ("eu-west-1", "lochan", 4)
    assert address.endpoint == "http://127.0.0.1:8000"
