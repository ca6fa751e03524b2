"""Pages of a log with operations are bounded by what they hold, not only by their commits."""

from __future__ import annotations

from functools import partial

import pytest

from lochan.access.policy import Call
from lochan.model.specs import parse_spec
from lochan.service import history as history_room
from tests.service.bench import Bench, new, pages


@pytest.fixture
def bench() -> Bench:
    """Main has six commits of three operations each."""
    one = Bench()
    for number in range(6):
        keys = [new(f"t{number}{letter}") for letter in "abc"]
        one.commit(*keys, message=f"commit {number}")
    return one


def sizes(bench: Bench, **more) -> list[int]:
    """Returns how many commits each page has, to the end."""
    found, token = [], None
    while True:
        page = bench.history.log(Call(), parse_spec("main"), 250, token, **more)
        found.append(len(page.items))
        token = page.token
        if token is None:
            return found


@pytest.mark.parametrize(("room", "expected"), [(1, [1] * 6), (4, [2, 2, 2]), (100, [6])])
def test_a_page_ends_with_the_commit_that_fills_its_operations(bench, monkeypatch, room, expected):
    monkeypatch.setattr(history_room, "LOG_OPERATIONS_MAX", room)
    assert sizes(bench, fetch_all=True) == expected
    assert sizes(bench) == [6]
    found = pages(partial(bench.history.log, Call(), parse_spec("main"), 250, fetch_all=True))
    assert [entry.meta.message for entry in found] == [f"commit {n}" for n in reversed(range(6))]
    assert [len(entry.operations) for entry in found] == [3] * 6


def test_a_page_ends_with_the_commit_that_fills_its_bytes(bench, monkeypatch):
    monkeypatch.setattr(history_room, "LOG_BYTES_MAX", 400)
    counts = sizes(bench, fetch_all=True)
    assert sum(counts) == 6
    assert len(counts) > 1
    assert min(counts) >= 1


def test_long_messages_fill_a_page_too(bench, monkeypatch):
    monkeypatch.setattr(history_room, "LOG_BYTES_MAX", len("commit 0") * 2)
    assert sizes(bench) == [2, 2, 2]


def test_a_log_that_ends_where_a_page_is_full_has_no_other(bench, monkeypatch):
    monkeypatch.setattr(history_room, "LOG_OPERATIONS_MAX", 18)
    assert sizes(bench, fetch_all=True) == [6]
    monkeypatch.setattr(history_room, "LOG_OPERATIONS_MAX", 6)
    assert sizes(bench, fetch_all=True, limit_hash=parse_spec("~1")) == [2]


def test_a_filter_that_looks_at_operations_looks_at_a_bounded_number(bench, monkeypatch):
    monkeypatch.setattr(history_room, "LOG_OPERATIONS_MAX", 6)
    only = "operations.exists(one, one.name == 't0a')"
    assert sizes(bench, filter=only) == [0, 0, 1]
