"""Logs and differences as users read them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from lochan.access.policy import Call
from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.model.commits import Delete, Put
from lochan.model.specs import parse_spec
from lochan.service import history as history_room
from tests.service.bench import Bench, key, names, new, pages, where


@pytest.fixture
def bench() -> Bench:
    """Main has ten commits, of which the first makes two tables."""
    one = Bench()
    one.fill("ns.a", "ns.b")
    for number in range(9):
        one.clock.advance_us(1_000_000)
        one.change("ns.a", f"a{number}", message=f"change {number}")
    return one


def said(page) -> list[str]:
    return [entry.meta.message for entry in page.items]


def test_a_log_is_the_line_of_commits_from_newest_to_oldest(bench):
    entries = bench.history.log(Call(), parse_spec("main")).items
    assert [entry.meta.message for entry in entries] == [
        *[f"change {number}" for number in reversed(range(9))],
        "fill ns.a ns.b",
    ]
    for newer, older in pairwise(entries):
        assert newer.parent == older.meta.hash
        assert newer.meta.parents == (older.meta.hash,)
    assert entries[-1].parent == EMPTY_ID.hex()
    assert {entry.operations for entry in entries} == {None}


def test_pages_of_a_log_fit_together_though_the_branch_moves(bench):
    for limit in (1, 3, 10, 11):
        whole = said(bench.history.log(Call(), parse_spec("main")))
        page = bench.history.log(Call(), parse_spec("main"), limit)
        found = said(page)
        while page.token is not None:
            bench.change("ns.b", f"beside {len(found)} {limit}")
            page = bench.history.log(Call(), parse_spec("main"), limit, page.token)
            found += said(page)
        assert found == whole


def test_operations_are_told_where_they_are_asked_for(bench):
    bench.commit(Delete(key=key("ns.b")), new("ns.c"), message="both")
    entry = bench.history.log(Call(), parse_spec("main"), 1, fetch_all=True).items[0]
    assert entry.operations is not None
    removed, added = entry.operations
    assert removed == Delete(key=key("ns.b"))
    assert isinstance(added, Put)
    assert (added.key, where(added.content)) == (key("ns.c"), "ns.c")


def test_a_log_ends_with_the_commit_that_limits_it(bench):
    third = bench.history.log(Call(), parse_spec("main"), 3).items[2].meta.hash
    for limit in (third, f"main@{third}", "~2", "main~2"):
        assert said(
            bench.history.log(Call(), parse_spec("main"), limit_hash=parse_spec(limit))
        ) == [
            "change 8",
            "change 7",
            "change 6",
        ]
    paged = pages(
        lambda token: bench.history.log(
            Call(), parse_spec("main"), 2, token, limit_hash=parse_spec(third)
        )
    )
    assert len(paged) == 3
    with pytest.raises(ReferenceNotFound):
        bench.history.log(Call(), parse_spec("main"), limit_hash=parse_spec("ab" * 32))
    with pytest.raises(ReferenceNotFound):
        bench.history.log(Call(), parse_spec("main"), limit_hash=parse_spec("~99"))


def test_a_relative_limit_stays_where_it_was_though_the_branch_moves(bench):
    first = bench.history.log(Call(), parse_spec("main"), 2, limit_hash=parse_spec("~4"))
    bench.change("ns.b", "moved on")
    rest = pages(
        partial(bench.history.log, Call(), parse_spec("main"), 2, limit_hash=parse_spec("~4")),
        token=first.token,
    )
    assert said(first) + [entry.meta.message for entry in rest] == [
        f"change {number}" for number in (8, 7, 6, 5, 4)
    ]


def test_a_token_of_a_log_goes_on_with_its_own_limit_and_filter_only(bench):
    token = bench.history.log(Call(), parse_spec("main"), 2).token
    assert token is not None
    for more in ({"limit_hash": parse_spec("~4")}, {"filter": "true"}):
        with pytest.raises(Invalid, match="another filter"):
            bench.history.log(Call(), parse_spec("main"), 2, token, **more)
    flipped = ("B" if token[40] == "A" else "A").join((token[:40], token[41:]))
    with pytest.raises(Invalid, match="changed"):
        bench.history.log(Call(), parse_spec("main"), 2, flipped)
    with pytest.raises(Invalid, match="another listing"):
        bench.contents.entries(Call(), parse_spec("main"), 2, token)


def test_a_filtered_log_has_every_match_once(bench):
    for limit in (1, 2, 100):
        only = "commit.message.endsWith('3')"
        found = pages(partial(bench.history.log, Call(), parse_spec("main"), limit, filter=only))
        assert [entry.meta.message for entry in found] == ["change 3"]
    by_key = "operations.exists(one, one.name == 'b')"
    found = pages(
        lambda token: bench.history.log(Call(), parse_spec("main"), 3, token, filter=by_key)
    )
    assert [entry.meta.message for entry in found] == ["fill ns.a ns.b"]
    assert found[0].operations is None


def test_a_filtered_page_looks_at_a_bounded_number_of_commits(bench, monkeypatch):
    monkeypatch.setattr(history_room, "LOG_SCANNED_MAX", 3)
    first = bench.history.log(
        Call(), parse_spec("main"), 5, filter="commit.message.startsWith('fill')"
    )
    assert (first.items, first.token is not None) == ((), True)
    found = pages(
        lambda token: bench.history.log(
            Call(), parse_spec("main"), 5, token, filter="commit.message.startsWith('fill')"
        )
    )
    assert len(found) == 1


def test_the_log_of_an_empty_branch_is_empty():
    page = Bench().history.log(Call(), parse_spec("main"))
    assert (page.items, page.token) == ((), None)


def test_a_log_starts_where_the_spec_says(bench):
    old = bench.history.log(Call(), parse_spec("main"), 5).items[4].meta.hash
    for spec in (old, "main~4", f"main@{old}", f"{bench.head()}~4"):
        assert said(bench.history.log(Call(), parse_spec(spec), 1)) == ["change 4"]
    moment = bench.history.log(Call(), parse_spec("main"), 5).items[4].meta.commit_time_us
    assert moment is not None
    assert said(bench.history.log(Call(), parse_spec(f"main*{moment // 1_000}"), 1)) == ["change 4"]


def test_a_difference_tells_both_sides_of_every_key_that_differs(bench):
    bench.branch("side")
    bench.change("ns.b", "theirs", branch="side")
    bench.commit(new("ns.c"), branch="side")
    bench.remove("ns.a", branch="side")
    page = bench.history.diff(Call(), parse_spec("main"), parse_spec("side"))
    assert [(names([one])[0], where(one.left), where(one.right)) for one in page.items] == [
        ("ns.a", "a8", ""),
        ("ns.b", "ns.b", "theirs"),
        ("ns.c", "", "ns.c"),
    ]
    assert [one.left is None for one in page.items] == [False, False, True]
    assert page.reference is not None
    assert page.other is not None
    assert (page.reference.name, page.other.name) == ("main", "side")
    assert (page.reference.hash, page.other.hash) == (bench.head(), bench.head("side"))
    back = bench.history.diff(Call(), parse_spec("side"), parse_spec("main"))
    assert [(one.right, one.left) for one in back.items] == [
        (one.left, one.right) for one in page.items
    ]
    assert bench.history.diff(Call(), parse_spec("side"), parse_spec("side")).items == ()


def test_pages_of_a_difference_stay_on_both_commits(bench):
    bench.branch("side")
    bench.commit(*[new(f"ns.n{number}") for number in range(7)], branch="side")
    for limit in (1, 2, 6, 7, 8, 9):
        whole = bench.history.diff(Call(), parse_spec("main"), parse_spec("side")).items
        first = bench.history.diff(Call(), parse_spec("main"), parse_spec("side"), limit)
        page, found = first, list(first.items)
        while page.token is not None:
            bench.change("ns.n6", f"moved {limit} {len(found)}", branch="side")
            bench.change("ns.a", f"moved {limit} {len(found)}")
            page = bench.history.diff(
                Call(), parse_spec("main"), parse_spec("side"), limit, page.token
            )
            found += page.items
            assert (page.reference, page.other) == (first.reference, first.other)
        assert found == list(whole)


def test_a_difference_is_of_the_keys_that_are_wanted(bench):
    bench.branch("side")
    bench.fill("ns.n1", "ns.n2", "x.n3", branch="side")
    diff = partial(bench.history.diff, Call(), parse_spec("main"), parse_spec("side"))
    assert names(diff(keys=[key("ns.n2"), key("ns.a")]).items) == ["ns.n2"]
    assert names(diff(start=key("ns.n2")).items) == ["ns.n2", "x", "x.n3"]
    assert names(diff(end=key("ns.n2")).items) == ["ns.n1", "ns.n2"]
    assert names(diff(prefix=key("x")).items) == ["x", "x.n3"]
    assert names(diff(filter="key.key == 'ns.n1'").items) == ["ns.n1"]
    wanted = [key("ns.n1"), key("ns.n2"), key("x")]
    found = pages(lambda token: diff(1, token, keys=wanted))
    assert names(found) == ["ns.n1", "ns.n2", "x"]


def test_a_token_of_a_difference_goes_on_with_its_own_selection_only(bench):
    bench.branch("side")
    bench.fill("ns.n1", "ns.n2", branch="side")
    token = bench.history.diff(Call(), parse_spec("main"), parse_spec("side"), 1).token
    for more in ({"prefix": ("ns",)}, {"filter": "true"}, {"keys": [("ns", "n1")]}):
        with pytest.raises(Invalid, match="another filter"):
            bench.history.diff(Call(), parse_spec("main"), parse_spec("side"), 1, token, **more)
    with pytest.raises(Invalid, match="another listing"):
        bench.contents.entries(Call(), parse_spec("main"), 1, token)


def test_a_page_of_history_has_room_for_one_at_least(bench):
    with pytest.raises(Invalid, match="at least one"):
        bench.history.log(Call(), parse_spec("main"), 0)
    with pytest.raises(Invalid, match="at least one"):
        bench.history.diff(Call(), parse_spec("main"), parse_spec("main"), -1)
