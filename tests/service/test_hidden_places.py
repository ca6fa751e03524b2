"""Listings that stop among hidden keys: bounded work, and tokens that do not show the place."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from lochan.access.policy import Call
from lochan.base.errors import Invalid
from lochan.index.layers import read_page
from lochan.index.marks import is_mark
from lochan.model.commits import Put
from lochan.model.contents import Namespace
from lochan.model.results import Page
from lochan.model.specs import parse_spec
from lochan.service import contents as contents_module
from lochan.service import history as history_module
from lochan.service import references as references_module
from tests.service.bench import ME, Bench, names, new, space
from tests.service.limited import CANARY, EVERYTHING, READS, allow, caller, enforced, shows

MAIN, SIDE = parse_spec("main"), parse_spec("side")
COUNT = 240

# Conditions decide on each key, so a listing has to look at those that they hide.
RULE = "!path.contains('zanzibar')"


@pytest.fixture(scope="module")
def wide() -> Bench:
    """Side has 240 hidden tables more than main, and among them three that are seen."""
    one = Bench()
    one.commit(space("ns"), new("ns.a"))
    one.branch("side")
    hidden = [new(f"ns.{CANARY}{number:04}", CANARY) for number in range(COUNT)]
    one.commit(*hidden[:180], space("a"), new("ns.zz"), branch="side")
    # The last ones are not in the tree, but embedded in the commit.
    one.commit(*hidden[180:-3], branch="side")
    one.commit(*hidden[-3:], new(f"ns.{CANARY[:-1]}", "seen"), branch="side")
    for number in range(30):
        one.branch(f"a/{CANARY}{number:02}")
    return enforced(one)


@pytest.fixture
def ann() -> Call:
    return caller(
        allow("read_log", "view_reference", rule="!ref.contains('zanzibar')"),
        allow("read_entries", "read_content", rule=RULE),
    )


@pytest.fixture(params=[3, 60, 239, 240, 10_000])
def bound(request, monkeypatch) -> int:
    """How many hidden elements a page looks at."""
    for module in (contents_module, history_module, references_module):
        monkeypatch.setattr(module, "SCAN_ENTRIES_MAX", request.param)
        monkeypatch.setattr(module, "PAGE_ENTRIES_MAX", min(request.param, 1_000))
    return request.param


def all_pages(read: Callable[[str | None], Page[Any]]) -> list[Page[Any]]:
    found, token = [], None
    while len(found) < 2_000:
        found.append(read(token))
        token = found[-1].token
        if token is None:
            return found
    raise AssertionError("the listing has no end")


SEEN = ["a", "ns", "ns.a", f"ns.{CANARY[:-1]}", "ns.zz"]

LISTINGS = {
    "entries": (lambda one, call, *at: one.contents.entries(call, SIDE, *at), SEEN),
    "diff": (
        lambda one, call, *at: one.history.diff(call, MAIN, SIDE, *at),
        ["a", f"ns.{CANARY[:-1]}", "ns.zz"],
    ),
    "diff back": (
        lambda one, call, *at: one.history.diff(call, SIDE, MAIN, *at),
        ["a", f"ns.{CANARY[:-1]}", "ns.zz"],
    ),
    "references": (lambda one, call, *at: one.references.list(call, *at), ["main", "side"]),
}


@pytest.mark.parametrize("name", LISTINGS)
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_all_that_is_seen_is_listed_once_and_no_page_shows_a_hidden_place(
    wide, ann, bound, name, limit
):
    read, expected = LISTINGS[name]
    found = all_pages(lambda token: read(wide, ann, limit, token))
    assert names(item for page in found for item in page.items) == expected
    assert not any(shows(page) for page in found)
    hidden = COUNT if name != "references" else 30
    steps = hidden // bound
    assert len(found) <= steps + 1 + (len(expected) if limit else 0)
    if limit is None:
        # A page looks at no more than was allowed, and one batch.
        assert len(found) >= hidden // (2 * bound)


@pytest.mark.parametrize("name", LISTINGS)
def test_a_hidden_place_is_where_the_listing_goes_on(wide, ann, monkeypatch, name):
    """It is used by the same caller, or by one that sees what lies there."""
    for module in (contents_module, history_module, references_module):
        monkeypatch.setattr(module, "SCAN_ENTRIES_MAX", 10)
        monkeypatch.setattr(module, "PAGE_ENTRIES_MAX", 10)
    read, _ = LISTINGS[name]
    token = next(page.token for page in all_pages(partial(read, wide, ann, None)) if page.token)
    assert is_mark(place_in(token, name))
    rest = read(wide, EVERYTHING, 1, token)
    assert shows(rest.items[0])
    with pytest.raises(Invalid):
        read(wide, ann, None, token[:-2])


def place_in(token: str, name: str) -> bytes:
    whole = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    place: bytes = msgspec.msgpack.decode(whole[16:])[3]
    return place[32:] if name.startswith("diff") else place


def test_all_tokens_for_hidden_places_have_the_same_length(wide, ann, monkeypatch):
    monkeypatch.setattr(contents_module, "SCAN_ENTRIES_MAX", 10)
    monkeypatch.setattr(contents_module, "PAGE_ENTRIES_MAX", 10)
    found = all_pages(lambda token: wide.contents.entries(ann, SIDE, None, token))
    tokens = [page.token for page in found if page.token is not None]
    assert len(tokens) > 20
    assert len(set(tokens)) == len(tokens)
    assert len({len(token) for token in tokens}) == 1


def test_a_hidden_reference_that_is_deleted_meanwhile_ends_no_listing(monkeypatch):
    one = Bench()
    for number in range(9):
        one.branch(f"a/{CANARY}{number}")
    ann = caller(allow(*READS, rule="!ref.contains('zanzibar')"))
    server = enforced(one)
    monkeypatch.setattr(references_module, "SCAN_ENTRIES_MAX", 3)
    monkeypatch.setattr(references_module, "PAGE_ENTRIES_MAX", 3)
    first = server.references.list(ann)
    assert (first.items, first.token is None) == ((), False)
    for number in range(9):
        one.references.delete(ME, f"a/{CANARY}{number}", None)
    assert names(server.references.list(ann, None, first.token).items) == ["main"]


def test_with_rights_by_patterns_hidden_keys_are_not_even_read(wide, monkeypatch):
    """Nothing hidden is read, so no page is short and no place is hidden."""
    read: list[bytes] = []

    def noting(*arguments: Any) -> list[tuple[bytes, bytes]]:
        page = read_page(*arguments)
        read.extend(key for key, _ in page)
        return page

    monkeypatch.setattr(contents_module, "read_page", noting)
    monkeypatch.setattr(contents_module, "SCAN_ENTRIES_MAX", 1)
    keys = ("ns.a", "ns.zz")
    ann = caller(allow("view_reference"), allow("read_entries", keys=keys))
    page = wide.contents.entries(ann, SIDE)
    assert (names(page.items), page.token) == (["ns.a", "ns.zz"], None)
    assert read == [b"tns\x01a", b"tns\x01zz"]


def test_many_patterns_are_one_listing(wide):
    """The ranges of a right are read one after the other, whatever lies between."""
    numbers = range(0, COUNT, 7)
    keys = tuple(f"ns.{CANARY}{number:04}" for number in numbers)
    ann = caller(allow("view_reference"), allow("read_entries", "read_content", keys=keys))
    for limit in (None, 1, 10):
        for read in (
            partial(wide.contents.entries, ann, SIDE, limit),
            partial(wide.history.diff, ann, MAIN, SIDE, limit),
        ):
            found = all_pages(read)
            assert names(item for page in found for item in page.items) == list(keys)
            assert limit is None or len(found) == -(-len(keys) // limit)


def test_a_log_looks_at_a_bounded_number_of_hidden_operations(monkeypatch):
    one = Bench()
    one.commit(space("ns"), space(CANARY))
    for number in range(6):
        one.commit(*[new(f"{CANARY}.t{number}{each}") for each in range(4)], new(f"ns.{number}"))
    ann = caller(allow(*READS[:2]), allow(*READS[2:], keys=("ns", "ns.*")))
    server = enforced(one)
    monkeypatch.setattr(history_module, "LOG_OPERATIONS_MAX", 8)
    found = all_pages(lambda token: server.history.log(ann, MAIN, None, token, fetch_all=True))
    assert [len(page.items) for page in found] == [2, 2, 2, 1]
    assert not any(shows(page) for page in found)
    operations = [one for page in found for entry in page.items for one in entry.operations]
    assert operations[-1] == Put(key=("ns",), content=operations[-1].content)
    assert isinstance(operations[-1].content, Namespace)
    assert len(operations) == 7
