"""The API of a whole store: who may use it, and parameters that nobody should send."""

from __future__ import annotations

from base64 import b64decode

import pytest

from lochan.kernel.repository import REPOSITORIES_PLACE
from tests.security.guarded_wire import GuardedWire, allow, principal

ROOT = bytes(16).hex()


@pytest.fixture
def wire() -> GuardedWire:
    return GuardedWire([principal("reader", [allow("read")]), principal("eraser", [allow("*")])])


def test_rows_are_returned_as_they_are_stored(wire):
    page = wire.send("GET", f"/store/v1/scan?partition={REPOSITORIES_PLACE.hex()}").json
    listed = wire.repositories.store.get(REPOSITORIES_PLACE, b"default")
    assert listed is not None
    (row,) = page["rows"]
    assert b64decode(row["key"]) == b"default"
    assert b64decode(row["value"]) == listed.value
    assert page["further"] is None


@pytest.mark.parametrize(
    "target",
    [
        "scan?partition=",
        "scan?partition=00",
        f"scan?partition={ROOT}zz",
        f"scan?partition={ROOT}6d&start=x",
        f"scan?partition={'00' * 300}",
        f"scan?partition={ROOT}6d&max-records=-1",
        f"walk?partition={'00' * 300}",
        f"walk?partition={ROOT[:-2]}",
        f"walk?partition={ROOT}&cursor=ff",
        f"walk?partition={ROOT}&max-records=x",
        "counts?page-token=x",
    ],
)
def test_bad_parameters_are_refused(wire, target):
    answer = wire.send("GET", f"/store/v1/{target}")
    assert answer.status == 400, answer.body


def test_a_page_has_a_bounded_number_of_rows(wire):
    answer = wire.send("GET", f"/store/v1/walk?partition={ROOT}&max-records=2000000000")
    assert answer.status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"repository": 1},
        {"repository": "default", "more": 1},
        {"repository": "default", "token": "x"},
    ],
)
def test_a_bad_erasure_is_refused_and_erases_nothing(wire, body):
    assert wire.send("POST", "/store/v1/erase", body).status in (400, 409)
    assert wire.repositories.store.get(REPOSITORIES_PLACE, b"default") is not None


def test_readers_may_not_read_rows_and_not_erase(wire):
    for method, target, body in (
        ("GET", "counts", None),
        ("GET", f"scan?partition={ROOT}61", None),
        ("GET", f"walk?partition={ROOT}", None),
        ("POST", "erase", {"repository": "default"}),
    ):
        more = () if body is None else (body,)
        assert wire.send_as("reader", method, f"/store/v1/{target}", *more).status == 403
