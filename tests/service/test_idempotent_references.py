"""Writes on references that carry a key take effect once, however often they are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import AlreadyExists, HeadConflict, KeyReused, ReferenceNotFound
from lochan.model.references import ReferenceMove
from lochan.model.requests import MoveRequest, NewReference, RebaseRequest
from lochan.model.specs import parse_spec
from tests.service.bench import ME, Bench

KEYED = Call("me", "key", b"one request")
OTHER = Call("me", "key", b"another request")


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.fill("ns.one")
    made.branch("side")
    made.fill("ns.two", branch="side")
    made.fill("ns.three")
    return made


def create(bench: Bench, call: Call) -> Any:
    new = [NewReference(kind="BRANCH", name=name, source=parse_spec("main")) for name in ("x", "y")]
    return bench.run(bench.references.create_many(call, new))


def assign(bench: Bench, call: Call) -> Any:
    return bench.references.assign(call, "side", parse_spec(SIDE[0]), parse_spec("main"))


def delete(bench: Bench, call: Call) -> Any:
    return bench.references.delete(call, "side", parse_spec(SIDE[0]))


def force(bench: Bench, call: Call) -> Any:
    return bench.merges.force(
        call, MoveRequest(branch="side", source=parse_spec("main"), expected=parse_spec(SIDE[0]))
    ).hash


def rebase(bench: Bench, call: Call) -> Any:
    return bench.merges.rebase(
        call, RebaseRequest(branch="side", onto=parse_spec("main"), expected=parse_spec(SIDE[0]))
    ).hash


SIDE: list[str] = [""]
WRITES = [create, assign, delete, force, rebase]


def told(bench: Bench) -> list[ReferenceMove]:
    moves = []
    for name in ("side", "x", "y"):
        try:
            moves += bench.references.log(ME, name, 100).items
        except ReferenceNotFound:
            continue
    return moves


@pytest.mark.parametrize("write", WRITES)
def test_the_same_request_again_is_answered_alike_and_changes_nothing(
    bench: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = bench.head("side")
    first = write(bench, KEYED)
    after = told(bench)
    bench.fill("ns.four")
    assert write(bench, KEYED) == first
    assert told(bench) == after


@pytest.mark.parametrize("write", WRITES)
def test_the_same_key_with_another_request_is_refused(
    bench: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = bench.head("side")
    write(bench, KEYED)
    with pytest.raises(KeyReused):
        write(bench, OTHER)


@pytest.mark.parametrize("write", WRITES)
def test_without_a_key_the_second_request_is_another_one(
    bench: Bench, write: Callable[[Bench, Call], Any]
):
    SIDE[0] = bench.head("side")
    write(bench, ME)
    with pytest.raises((AlreadyExists, HeadConflict, ReferenceNotFound)):
        write(bench, ME)


def test_a_move_that_has_left_the_row_is_still_known(bench):
    SIDE[0] = bench.head("side")
    assign(bench, KEYED)
    for _ in range(20):
        bench.references.assign(ME, "side", None, parse_spec("main"))
    before = told(bench)
    assign(bench, KEYED)
    assert told(bench) == before
