"""Listings of files: of branches with what is staged, of commits, and of what is staged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lochan.base.errors import Invalid, NotABranch
from lochan.model.files import FileChange, FileInfo, FilePrefix
from lochan.model.requests import NewReference
from lochan.model.specs import parse_spec
from lochan.service.file_pages import open_place, seal_place
from tests.profile import counted
from tests.service.bench import ME, Bench, pages

MAIN = parse_spec("main")
PATHS = ["a", "a/1", "a/2", "a/b/3", "a0", "b/x", "c//d", "é"]


@pytest.fixture
def bench() -> Bench:
    """Some files are committed, some staged, one deletion is staged."""
    one = Bench()
    for path in [*PATHS[::2], "gone"]:
        one.put(path, path.encode())
    one.commit_files()
    for path in PATHS[1::2]:
        one.put(path, path.encode())
    one.files.delete(ME, "main", "gone")
    return one


def listed(bench: Bench, limit: int | None = None, spec: str = "main", **more: str) -> list[str]:
    ask = bench.repository.file_listings.list
    found = pages(lambda token: ask(ME, parse_spec(spec), limit=limit, token=token, **more))
    return [one.path for one in found]


def folded(paths: list[str], prefix: str, delimiter: str, after: str = "") -> list[str]:
    """What a listing has, by the definition of prefix, delimiter and position."""
    found: list[str] = []
    for path in sorted(paths, key=str.encode):
        if not path.startswith(prefix):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        shown = path if at < 0 else path[: at + len(delimiter)]
        if shown.encode() > after.encode() and shown not in found[-1:]:
            found.append(shown)
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, None])
@pytest.mark.parametrize("delimiter", ["", "/", "//", "a"])
@pytest.mark.parametrize("prefix", ["", "a", "a/", "c/", "x"])
def test_pages_show_what_is_committed_and_staged_folded_at_the_delimiter(
    bench, prefix, delimiter, limit
):
    wanted = folded(PATHS, prefix, delimiter)
    assert listed(bench, limit, prefix=prefix, delimiter=delimiter) == wanted
    head = folded([*PATHS[::2], "gone"], prefix, delimiter)
    assert listed(bench, limit, bench.head(), prefix=prefix, delimiter=delimiter) == head


_names = st.text(st.sampled_from("ab/"), min_size=1, max_size=5)


@settings(max_examples=counted(60, 2_000), deadline=None)
@given(
    committed=st.sets(_names, max_size=12),
    staged=st.dictionaries(_names, st.booleans(), max_size=12),
    prefix=st.text(st.sampled_from("ab/"), max_size=2),
    delimiter=st.sampled_from(["", "/", "b", "ab"]),
    after=st.text(st.sampled_from("ab/"), max_size=3),
    limit=st.integers(1, 4),
)
def test_any_listing_agrees_with_its_definition(committed, staged, prefix, delimiter, after, limit):
    bench = Bench()
    for path in committed:
        bench.put(path)
    if committed:
        bench.commit_files()
    there = set(committed)
    for path, is_put in staged.items():
        if is_put:
            bench.put(path)
            there.add(path)
        else:
            bench.files.delete(ME, "main", path)
            there.discard(path)
    found = listed(bench, limit, prefix=prefix, delimiter=delimiter, after=after)
    assert found == folded(list(there), prefix, delimiter, after)


def test_a_page_of_a_commit_goes_on_in_the_commit(bench):
    ask = bench.repository.file_listings.list
    spec = parse_spec(bench.head())
    first = ask(ME, spec, limit=2)
    bench.commit_files()
    rest = ask(ME, spec, limit=100, token=first.token)
    assert [one.path for one in (*first.items, *rest.items)] == sorted([*PATHS[::2], "gone"])
    tag = NewReference(name="t", kind="TAG", source=MAIN)
    bench.run(bench.references.create(ME, tag))
    assert listed(bench, 1, "t") == sorted(PATHS)


def test_a_token_fits_its_listing_only(bench):
    ask = bench.repository.file_listings.list
    token = ask(ME, MAIN, limit=1).token
    bench.branch("side")
    for spec, more in (
        ("side", {}),
        ("main", {"prefix": "a"}),
        ("main", {"delimiter": "/"}),
        (bench.head(), {}),
    ):
        with pytest.raises(Invalid):
            ask(ME, parse_spec(spec), token=token, **more)
    with pytest.raises(Invalid):
        bench.repository.file_listings.uncommitted(ME, "main", token=token)


@pytest.mark.parametrize(
    "wrong", [{"prefix": "a\0"}, {"delimiter": "x" * 17}, {"after": "\ud800"}, {"limit": 0}]
)
def test_what_cannot_be_listed_is_refused(bench, wrong):
    with pytest.raises(Invalid):
        bench.repository.file_listings.list(ME, MAIN, **wrong)


def changes(bench: Bench, limit: int | None = None, **more: str) -> Iterator[object]:
    ask = bench.repository.file_listings.uncommitted
    for one in pages(lambda token: ask(ME, "main", limit=limit, token=token, **more)):
        yield (one.path, one.kind) if isinstance(one, FileChange) else one


@pytest.mark.parametrize("limit", [1, 2, None])
def test_what_is_staged_is_shown_as_changes_of_the_head(bench, limit):
    bench.put("a", b"other")
    bench.put("a/2", b"a/2")
    assert list(changes(bench, limit)) == [
        ("a", "changed"),
        ("a/1", "added"),
        ("a/b/3", "added"),
        ("b/x", "added"),
        ("gone", "removed"),
        ("é", "added"),
    ]
    assert list(changes(bench, limit, prefix="a", delimiter="/")) == [
        ("a", "changed"),
        FilePrefix("a/"),
    ]
    bench.commit_files()
    assert list(changes(bench)) == []


def test_only_branches_have_staged_files(bench):
    tag = NewReference(name="t", kind="TAG", source=MAIN)
    bench.run(bench.references.create(ME, tag))
    with pytest.raises(NotABranch):
        bench.repository.file_listings.uncommitted(ME, "t")


def test_a_listing_has_what_stat_returns(bench):
    page = bench.repository.file_listings.list(ME, MAIN)
    assert page.reference is not None
    for one in page.items:
        assert isinstance(one, FileInfo)
        assert one == bench.files.stat(ME, MAIN, one.path)


def test_files_behind_many_deleted_ones_are_listed():
    bench = Bench()
    count = 5_000
    for at in range(count // 1_000):
        paths = [f"d/{at}/{number:04}" for number in range(1_000)]
        for path in paths:
            bench.put(path)
        bench.files.delete_many(ME, "main", paths)
    bench.put("z")
    ask = bench.repository.file_listings.list
    assert listed(bench, 1) == ["z"]
    page = ask(ME, MAIN, limit=1, delimiter="/")
    assert [one.path for one in page.items] == ["z"]


def test_a_place_in_a_token_is_not_readable_and_comes_back():
    secret, nonce = b"k" * 32, b"n" * 16
    for place in (b"f", b"f" + b"x" * 1_024):
        sealed = seal_place(secret, nonce, place)
        assert b"xxxx" not in sealed
        assert len(sealed) == len(seal_place(secret, nonce, b"f"))
        assert open_place(secret, sealed) == place
    assert open_place(secret, b"fplain") == b"fplain"
