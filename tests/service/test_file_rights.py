"""Rights over paths: what a caller may not see is in no answer, what it may not do is not done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lochan.base.errors import Denied, LochanError, NotFound, PathNotFound, ReferenceNotFound
from lochan.model.commits import CommitMeta
from lochan.model.files import FileProperties, WriteCondition
from lochan.model.requests import MergeRequest
from lochan.model.specs import parse_spec
from lochan.service import file_pages
from tests.service.bench import Bench, new, pages
from tests.service.limited import CANARY, allow, caller, deny, enforced
from tests.service.limited import READS as READ_ACTIONS

MAIN, SIDE = parse_spec("main"), parse_spec("side")
READS = (*READ_ACTIONS,)
META = CommitMeta(message="m")

# Reads all but what is below the canary; writes below open/ only.
ANN = caller(
    allow(*READS),
    deny("read_entries", "read_content", paths=(f"{CANARY}/*", f"open/{CANARY}/*")),
    allow("commit", "merge", "write_content", "delete_content", paths=("open/*",), keys=()),
    allow("commit", "merge", "assign_reference"),
)
BLIND = caller(allow("view_reference"), allow("write_content", "delete_content", paths=("open/*",)))
NOBODY = caller(allow("view_reference", references=("other",)))


@pytest.fixture
def bench() -> Bench:
    """Hidden and open files, committed and staged, on main; on side a hidden one was changed."""
    one = Bench()
    for path in (f"{CANARY}/a", "open/a", f"open/{CANARY}/b", "z/c"):
        one.put(path, CANARY.encode(), properties=FileProperties(metadata=(("k", CANARY),)))
    one.commit_files("main", "first", new("t"))
    one.branch("side")
    one.put(f"{CANARY}/a", b"other", "side")
    one.put("open/a", b"other", "side")
    one.commit_files("side", "second")
    one.put(f"{CANARY}/staged", b"x")
    one.put("open/staged", b"x")
    return enforced(one)


def answer(work: Callable[[], Any]) -> str:
    """Everything that an answer or an error shows."""
    try:
        found = work()
    except LochanError as error:
        return f"{error!r} {vars(error)!r}"
    return repr(found)


@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("limit", [1, 2, None])
def test_listings_and_differences_leave_hidden_paths_out_and_their_prefixes(
    bench, delimiter, limit
):
    listings, history = bench.repository.file_listings, bench.repository.file_history
    more = {"delimiter": delimiter, "limit": limit}
    for ask, wanted in (
        (lambda token: listings.list(ANN, MAIN, token=token, **more), "open/a open/staged z/c"),
        (lambda token: listings.uncommitted(ANN, "main", token=token, **more), "open/staged"),
        (lambda token: history.diff(ANN, MAIN, SIDE, token=token, **more), "open/a"),
    ):
        found = pages(ask)
        assert CANARY not in repr([getattr(one, "path", one) for one in found])
        paths = [one.path for one in found]
        if delimiter:
            tops = dict.fromkeys(path.split("/")[0] + "/" for path in wanted.split())
            assert paths == list(tops)
        else:
            assert paths == wanted.split()


def test_a_page_that_ends_among_hidden_paths_does_not_show_them(bench, monkeypatch):
    monkeypatch.setattr(file_pages, "SCAN_ENTRIES_MAX", 0)
    listed = bench.repository.file_listings.list
    found = pages(lambda token: listed(ANN, MAIN, limit=1, token=token))
    assert [one.path for one in found] == ["open/a", "open/staged", "z/c"]


@pytest.mark.parametrize("path", [f"{CANARY}/a", f"{CANARY}/staged", f"open/{CANARY}/b"])
def test_a_hidden_file_looks_absent(bench, path):
    absent = path.replace(CANARY, "zinzibar")
    files = bench.repository.files
    works: list[Callable[[str], Any]] = [
        lambda one: files.stat(ANN, MAIN, one),
        lambda one: files.open(ANN, MAIN, one),
        lambda one: files.open_stored(ANN, MAIN, one),
        lambda one: files.presign(ANN, MAIN, one),
        lambda one: files.copy(ANN, "main", "open/copy", MAIN, one),
        lambda one: bench.repository.file_history.log(ANN, MAIN, paths=[one]).items,
    ]
    for work in works:
        hidden, other = (answer(partial(work, one)) for one in (path, absent))
        assert hidden.replace(CANARY, "zinzibar") == other
    with pytest.raises(PathNotFound):
        files.stat(ANN, MAIN, path)


def test_a_log_by_prefix_does_not_count_hidden_paths(bench):
    log = bench.repository.file_history.log
    assert [one.meta.message for one in log(ANN, SIDE, prefixes=[""]).items] == ["second", "first"]
    assert log(ANN, SIDE, prefixes=[CANARY]).items == ()


@pytest.mark.parametrize("path", ["z/c", f"{CANARY}/a", "new"])
def test_a_file_is_written_and_deleted_only_with_the_right_to_that_path(bench, path):
    repository = bench.repository
    before = answer(lambda: repository.file_listings.list(caller(allow("*")), MAIN).items)
    for work in (
        lambda: repository.uploads.begin(ANN, "main", path),
        lambda: repository.files.copy(ANN, "main", path, MAIN, "open/a"),
        lambda: repository.files.update(ANN, "main", path, content_type="x"),
        lambda: repository.files.delete(ANN, "main", path),
        lambda: repository.files.delete_many(ANN, "main", ["open/a", path]),
        lambda: repository.resets.reset(ANN, "main", path=path),
        lambda: repository.resets.reset(ANN, "main"),
    ):
        with pytest.raises(Denied):
            work()
    after = answer(lambda: repository.file_listings.list(caller(allow("*")), MAIN).items)
    assert before == after


def test_a_writer_that_may_not_read_learns_nothing(bench):
    files = bench.repository.files
    assert files.delete(BLIND, "main", "open/a")
    assert files.delete(BLIND, "main", "open/a")
    for condition in (WriteCondition(if_absent=True), WriteCondition(if_match="*")):
        for path in ("open/staged", "open/none"):
            with pytest.raises((Denied, NotFound)):
                bench.repository.uploads.begin(BLIND, "main", path, condition=condition)


def test_a_merge_needs_the_rights_over_its_files(bench):
    request = MergeRequest(branch="main", expected=None, source=SIDE)
    pending = bench.repository.merges.merge(ANN, request)
    with pytest.raises(Denied) as refused:
        bench.run(pending)
    assert CANARY not in answer(lambda: refused.value)


def test_a_commit_needs_the_right_to_commit_and_shows_no_path(bench):
    with pytest.raises(Denied):
        bench.repository.commits.commit(BLIND, "main", None, META, [], staged=True)
    made = bench.run(bench.repository.commits.commit(ANN, "main", None, META, [], staged=True))
    assert CANARY not in repr(made)


def test_a_branch_that_one_may_not_view_looks_absent(bench):
    repository = bench.repository
    works: list[Callable[[str], Any]] = [
        lambda name: repository.files.stat(NOBODY, parse_spec(name), "open/a"),
        lambda name: repository.uploads.begin(NOBODY, name, "open/a"),
        lambda name: repository.file_listings.list(NOBODY, parse_spec(name)),
        lambda name: repository.file_listings.uncommitted(NOBODY, name),
        lambda name: repository.resets.reset(NOBODY, name),
    ]
    for work in works:
        with pytest.raises(ReferenceNotFound):
            work("main")
        absent = answer(partial(work, "zzzz")).replace("zzzz", "main")
        assert answer(partial(work, "main")) == absent
