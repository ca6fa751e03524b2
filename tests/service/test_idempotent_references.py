"""Writes on references that carry a key take effect once, however often they are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.base.errors import AlreadyExists, HeadConflict, KeyReused, ReferenceNotFound
from lochan.model.references import ReferenceMove
from lochan.model.requests import MoveRequest, NewReference, RebaseRequest
from lochan.model.specs import parse_spec
from lochan.service.calls import Call
from tests.service.bench import ME, Bench

KEYED = Call("me", "key", b"one request")
OTHER = Call("me", "key", b"another request")


@pytest.fixture
def desk() -> Bench:
    made = Bench()
    made.fill("ns.one")
    made.branch("side")
    made.fill("ns.two", branch="side")
    made.fill("ns.three")
    return made


def create(desk: Bench, call: Call) -> Any:
    new = [NewReference(kind="BRANCH", name=name, source=parse_spec("main")) for name in ("x", "y")]
    return desk.run(desk.references.create_many(call, new))


def assign(desk: Bench, call: Call) -> Any:
    return desk.references.assign(call, "side", parse_spec(SIDE[0]), parse_spec("main"))


def delete(desk: Bench, call: Call) -> Any:
    return desk.references.delete(call, "side", parse_spec(SIDE[0]))


def force(desk: Bench, call: Call) -> Any:
    return desk.merges.force(
        call, MoveRequest(branch="side", source=parse_spec("main"), expected=parse_spec(SIDE[0]))
    ).hash


def rebase(desk: Bench, call: Call) -> Any:
    return desk.merges.rebase(
        call, RebaseRequest(branch="side", onto=parse_spec("main"), expected=parse_spec(SIDE[0]))
    ).hash


SIDE: list[str] = [""]
WRITES = [create, assign, delete, force, rebase]


def told(desk: Bench) -> list[ReferenceMove]:
    moves = []
    for name in ("side", "x", "y"):
        try:
            moves += desk.references.log(ME, name, 100).items
        except ReferenceNotFound:
            continue
    return moves


@pytest.mark.parametrize("write", WRITES)
def test_the_same_request_again_is_answered_alike_and_changes_nothing(
    desk: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = desk.head("side")
    first = write(desk, KEYED)
    after = told(desk)
    desk.fill("ns.four")
    assert write(desk, KEYED) == first
    assert told(desk) == after


@pytest.mark.parametrize("write", WRITES)
def test_the_same_key_with_another_request_is_refused(
    desk: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = desk.head("side")
    write(desk, KEYED)
    with pytest.raises(KeyReused):
        write(desk, OTHER)


@pytest.mark.parametrize("write", WRITES)
def test_without_a_key_the_second_request_is_another_one(
    desk: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = desk.head("side")
    write(desk, ME)
    with pytest.raises((AlreadyExists, HeadConflict, ReferenceNotFound)):
        write(desk, ME)


def test_a_move_that_has_left_the_row_is_still_known(desk):
    SIDE[0] = desk.head("side")
    assign(desk, KEYED)
    for _ in range(20):
        desk.references.assign(ME, "side", None, parse_spec("main"))
    before = told(desk)
    assign(desk, KEYED)
    assert told(desk) == before
