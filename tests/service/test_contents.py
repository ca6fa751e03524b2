"""Entries and contents as users read them: in pages, by range, by prefix, by name."""

from __future__ import annotations

from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lochan.base.errors import ContentNotFound, Invalid, InvalidKey, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.model.commits import ContentKey, Operation, Put
from lochan.model.contents import Namespace
from lochan.model.specs import parse_spec
from lochan.service import contents as contents_room
from tests.service.bench import ME, Bench, key, names, new, pages, table

NAMES = ["a.t1", "a.t2", "a.b.t", "b.t", "b.u", "ab"]

# Neighbours in the order of bytes: signs below the dot, prefixes of each other, other alphabets.
ELEMENTS = ["a", "a b", "a!", "aa", "ab", "b", "é", "日本", "😀", "~", "0", "A"]


@pytest.fixture
def bench() -> Bench:
    one = Bench()
    one.fill(*NAMES)
    return one


@cache
def stocked() -> tuple[Bench, dict[ContentKey, str]]:
    """A repository with keys of up to three of the elements; read by many examples."""
    bench = Bench()
    keys: list[ContentKey] = [(one,) for one in ELEMENTS]
    keys += [(one, other) for one in ELEMENTS[:6] for other in ELEMENTS]
    keys += [("a", "a", other) for other in ELEMENTS]
    spaces = {at[:length] for at in keys for length in range(1, len(at))}
    does: list[Operation] = [
        Put(key=at, content=Namespace(elements=at) if at in spaces else table("/".join(at)))
        for at in keys
    ]
    bench.commit(*does)
    return bench, {at: "NAMESPACE" if at in spaces else "ICEBERG_TABLE" for at in keys}


def order(at: ContentKey) -> bytes:
    """The order of listings: that of the bytes, a parent directly before what lies in it."""
    return "\x01".join(at).encode()


KEYS = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3).map(tuple)


@given(
    limit=st.none() | st.integers(1, 120),
    start=st.none() | KEYS,
    end=st.none() | KEYS,
    wanted=st.lists(KEYS, max_size=6),
)
def test_a_range_holds_what_a_dictionary_holds(limit, start, end, wanted):
    bench, model = stocked()
    found = pages(
        lambda token: bench.contents.entries(
            ME, parse_spec("main"), limit, token, start=start, end=end, keys=wanted
        ),
        200,
    )
    expected = [
        at
        for at in sorted(model, key=order)
        if (start is None or order(at) >= order(start))
        and (end is None or order(at) <= order(end))
        and (not wanted or at in wanted)
    ]
    assert [entry.key for entry in found] == expected
    assert [entry.type for entry in found] == [model[at] for at in expected]


@given(limit=st.none() | st.integers(1, 50), prefix=KEYS, wanted=st.lists(KEYS, max_size=4))
def test_a_prefix_is_the_key_itself_and_all_that_lies_in_it(limit, prefix, wanted):
    bench, model = stocked()
    found = pages(
        lambda token: bench.contents.entries(
            ME, parse_spec("main"), limit, token, prefix=prefix, keys=wanted
        )
    )
    expected = [at for at in sorted(model, key=order) if at[: len(prefix)] == prefix]
    if wanted:
        expected = [at for at in expected if at in wanted]
    assert [entry.key for entry in found] == expected


def test_a_prefix_does_not_go_with_a_first_or_a_last_key(bench):
    for more in ({"start": ("a",)}, {"end": ("a",)}):
        with pytest.raises(Invalid, match="prefix"):
            bench.contents.entries(ME, parse_spec("main"), prefix=("a",), **more)


def test_a_page_goes_on_in_the_commit_of_the_first_though_the_branch_moves(bench):
    before = names(bench.contents.entries(ME, parse_spec("main")).items)
    first = bench.contents.entries(ME, parse_spec("main"), 3)
    bench.remove("a.t1", "b.t")
    bench.commit(new("a.t0"), new("zz"))
    rest = pages(partial(bench.contents.entries, ME, parse_spec("main"), 3), token=first.token)
    assert names(first.items) + names(rest) == before
    page = bench.contents.entries(ME, parse_spec("main"), 3, first.token)
    assert page.reference == first.reference
    assert first.reference is not None
    assert (first.reference.kind, first.reference.name) == ("BRANCH", "main")
    assert first.reference.hash != bench.head()


def test_a_page_may_be_as_long_as_everything_and_has_no_token_then(bench):
    count = len(bench.contents.entries(ME, parse_spec("main")).items)
    assert bench.contents.entries(ME, parse_spec("main"), count).token is None
    assert bench.contents.entries(ME, parse_spec("main"), count - 1).token is not None


def test_all_entries_of_more_than_a_page_of_the_store_are_listed():
    bench = Bench()
    count = PAGE_ENTRIES_MAX + 7
    wanted = [f"t{number:05}" for number in range(count)]
    for at in range(0, count, 500):
        bench.commit(*[new(name) for name in wanted[at : at + 500]])
    assert names(bench.contents.entries(ME, parse_spec("main")).items) == wanted
    page = bench.contents.entries(ME, parse_spec("main"), PAGE_ENTRIES_MAX + 3)
    assert names(page.items) == wanted[: PAGE_ENTRIES_MAX + 3]
    rest = bench.contents.entries(ME, parse_spec("main"), PAGE_ENTRIES_MAX + 3, page.token)
    assert names(rest.items) == wanted[PAGE_ENTRIES_MAX + 3 :]


def test_a_token_that_was_changed_or_belongs_elsewhere_is_refused(bench):
    token = bench.contents.entries(ME, parse_spec("main"), 2).token
    assert token is not None
    other = Bench(bench.store, seed=5, name="other")
    other.fill("a.t")
    with pytest.raises(Invalid, match="another repository"):
        other.contents.entries(ME, parse_spec("main"), 2, token)
    flipped = ("B" if token[30] == "A" else "A").join((token[:30], token[31:]))
    for bad in (flipped, token[:-1], token + "A", "", "é", "x" * 10_000):
        with pytest.raises(Invalid, match="token"):
            bench.contents.entries(ME, parse_spec("main"), 2, bad)
    with pytest.raises(Invalid, match="another listing"):
        bench.history.log(ME, parse_spec("main"), 2, token)
    with pytest.raises(Invalid, match="another listing"):
        bench.references.list(ME, 2, token)


def test_a_token_goes_on_with_its_own_reference_only(bench):
    head = bench.head()
    bench.branch("side")
    page = bench.contents.entries(ME, parse_spec("main"), 2)
    for other in ("side", "main~1", f"main@{EMPTY_ID.hex()}", f"@{EMPTY_ID.hex()}"):
        with pytest.raises(Invalid, match="another reference"):
            bench.contents.entries(ME, parse_spec(other), 2, page.token)
    # The same under another name, or the very commit that the listing goes on in.
    for same in ("main", "-", head, f"@{head}", f"main@{head}"):
        assert bench.contents.entries(ME, parse_spec(same), 2, page.token).items


def test_a_token_goes_on_with_its_own_selection_only(bench):
    token = bench.contents.entries(ME, parse_spec("main"), 2).token
    for more in (
        {"filter": "true"},
        {"prefix": ("a",)},
        {"start": ("a",)},
        {"end": ("z",)},
        {"keys": [("a", "t1")]},
    ):
        with pytest.raises(Invalid, match="another filter"):
            bench.contents.entries(ME, parse_spec("main"), 2, token, **more)
    filtered = bench.contents.entries(
        ME, parse_spec("main"), 1, filter="entry.contentType == 'ICEBERG_TABLE'"
    )
    with pytest.raises(Invalid, match="another filter"):
        bench.contents.entries(ME, parse_spec("main"), 2, filtered.token)


def test_a_filtered_listing_has_every_match_once_whatever_the_pages(bench):
    only = "entry.contentType == 'NAMESPACE'"
    for limit in (1, 2, 3, 10, None):
        found = pages(
            partial(
                bench.contents.entries,
                ME,
                parse_spec("main"),
                limit,
                filter=only,
                with_content=True,
            )
        )
        assert names(found) == ["a", "a.b", "b"]
        assert [entry.content is not None for entry in found] == [True] * 3


def test_a_page_that_filters_looks_at_a_bounded_number_and_tells_where_to_go_on(bench, monkeypatch):
    monkeypatch.setattr(contents_room, "SCAN_ENTRIES_MAX", 2)
    monkeypatch.setattr(contents_room, "PAGE_ENTRIES_MAX", 2)
    only = "entry.name == 'u'"
    first = bench.contents.entries(ME, parse_spec("main"), 5, filter=only)
    assert first.items == ()
    assert first.token is not None
    found = pages(
        lambda token: bench.contents.entries(ME, parse_spec("main"), 5, token, filter=only)
    )
    assert names(found) == ["b.u"]


def test_contents_come_with_entries_where_they_are_asked_for(bench):
    for entry in bench.contents.entries(ME, parse_spec("main"), with_content=True).items:
        content, _ = bench.contents.get(ME, parse_spec("main"), entry.key)
        assert entry.content == content
        assert entry.content_id == content.id
    assert {entry.content for entry in bench.contents.entries(ME, parse_spec("main")).items} == {
        None
    }


def test_a_page_has_room_for_one_at_least(bench):
    for limit in (0, -1):
        with pytest.raises(Invalid, match="at least one"):
            bench.contents.entries(ME, parse_spec("main"), limit)


def test_reading_a_commit_of_the_past_shows_what_it_held(bench):
    old = bench.head()
    bench.remove("a.t1")
    bench.change("b.t", "elsewhere")
    for spec in (old, f"@{old}", f"main@{old}", "main~2", f"{bench.head()}~2"):
        assert bench.state(spec)["b.t"] == "b.t"
        assert "a.t1" in bench.state(spec)
    content, reference = bench.contents.get(ME, parse_spec(old), key("b.t"))
    assert (reference.kind, reference.name, reference.hash) == ("DETACHED", None, old)
    _, pinned = bench.contents.get(ME, parse_spec(f"main@{old}"), key("b.t"))
    assert (pinned.kind, pinned.name, pinned.hash) == ("BRANCH", "main", old)
    assert content.id


def test_what_is_not_there_is_told_by_its_key(bench):
    with pytest.raises(ContentNotFound, match=r"'a\.zz'") as caught:
        bench.contents.get(ME, parse_spec("main"), ("a", "zz"))
    assert caught.value.key == ("a", "zz")
    with pytest.raises(ReferenceNotFound):
        bench.contents.get(ME, parse_spec("nowhere"), ("a", "t1"))
    with pytest.raises(InvalidKey):
        bench.contents.get(ME, parse_spec("main"), ())


def test_several_contents_are_read_of_one_commit_and_missing_ones_left_out(bench):
    found, reference = bench.contents.get_many(
        ME, parse_spec("main"), [key("b.t"), key("nothing"), key("a.t1"), key("b.t")]
    )
    assert [at for at, _ in found] == [key("a.t1"), key("b.t")]
    assert reference.hash == bench.head()
    assert bench.contents.get_many(ME, parse_spec("main"), [])[0] == []


def test_a_token_outlives_the_server_that_made_it_but_not_the_branch(bench):
    bench.branch("side")
    page = bench.contents.entries(ME, parse_spec("side"), 2)
    assert bench.again().contents.entries(ME, parse_spec("side"), 2, page.token).items
    bench.references.delete(ME, "side", parse_spec(bench.head("side")))
    with pytest.raises(ReferenceNotFound):
        bench.contents.entries(ME, parse_spec("side"), 2, page.token)
    assert page.reference is not None
    assert bench.contents.entries(ME, parse_spec(page.reference.hash), 2, page.token).items
