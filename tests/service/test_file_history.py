"""One history of tables and files: commits, differences, logs, merges, reverts and resets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lochan.access.policy import Call
from lochan.base.errors import (
    Corrupt,
    HeadConflict,
    Invalid,
    KeysConflict,
    NothingToCommit,
    PathNotFound,
    StagedWork,
)
from lochan.base.limits.commits import COMMIT_OWN_KEYS_MAX
from lochan.kernel.check import check_repository
from lochan.model.commits import CommitMeta
from lochan.model.files import FileChange, FilePrefix, Imported, ImportProgress, ImportSource
from lochan.model.requests import MoveRequest, RevertRequest, TransplantRequest
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.service import file_history
from tests.service.bench import ME, Bench, details, new, pages
from tests.service.file_bench import file_bench

MAIN = parse_spec("main")
KEYED = Call("me", "key", b"one request")


@pytest.fixture
def bench() -> Bench:
    """A table and three files, committed on main; side begins there."""
    one = Bench()
    for path in ("d/1", "d/2", "e"):
        one.put(path, path.encode())
    one.commit_files("main", "base", new("t"))
    one.branch("side")
    return one


def compared(bench: Bench, left: str, right: str, limit: int = 2, **more: Any) -> list[object]:
    diff = bench.repository.file_history.diff
    one, other = parse_spec(left), parse_spec(right)
    found = pages(lambda token: diff(ME, one, other, limit=limit, token=token, **more))
    return [(each.path, each.kind) if isinstance(each, FileChange) else each for each in found]


def logged(bench: Bench, limit: int = 2, **more: Any) -> list[str]:
    log = bench.repository.file_history.log
    found = pages(lambda token: log(ME, MAIN, limit=limit, token=token, **more))
    return [entry.meta.message for entry in found]


def changed(bench: Bench, branch: str, message: str = "both") -> str:
    """One commit that changes a table and three files: one is new, one other, one gone."""
    bench.put("d/1", b"other", branch)
    bench.put("new", b"new", branch)
    bench.files.delete(ME, branch, "e")
    return bench.commit_files(branch, message, bench.changed("t", "moved", branch)).hash


AFTER = {"d/1": b"other", "d/2": b"d/2", "new": b"new"}
BEFORE = {"d/1": b"d/1", "d/2": b"d/2", "e": b"e"}


def test_tables_and_files_are_one_commit_with_one_id(bench):
    before = bench.head("side")
    made = changed(bench, "side")
    assert bench.head("side") == made
    assert (bench.tree("side"), bench.state("side")) == (AFTER, {"t": "moved"})
    assert (bench.tree("main"), bench.state("main")) == (BEFORE, {"t": "t"})
    assert bench.messages("side") == ["both", "base"]
    (entry, _) = bench.log("side")
    assert (entry.meta.hash, entry.parent) == (made, before)
    assert [one.key for one in entry.operations or ()] == [("t",)]
    assert [entry.key for entry in bench.contents.entries(ME, parse_spec("side")).items] == [("t",)]
    report = check_repository(
        bench.repository.context, decode=bench.repository.types.decode, history=True
    )
    assert not report.findings


def test_a_merge_brings_both_and_a_revert_undoes_both(bench):
    changed(bench, "side")
    merged = bench.merge("side")
    assert merged.successful
    assert [(one.path, one.conflict) for one in merged.paths] == [
        ("d/1", None),
        ("e", None),
        ("new", None),
    ]
    assert [one.key for one in merged.keys] == [("t",)]
    assert (bench.tree(), bench.state()) == (AFTER, {"t": "moved"})
    undo = RevertRequest(
        branch="main", expected=None, hashes=(ReferenceSpec(None, bench.head("main")),)
    )
    bench.run(bench.repository.merges.revert(ME, undo))
    assert (bench.tree(), bench.state()) == (BEFORE, {"t": "t"})


def test_a_cherry_pick_brings_both(bench):
    made = changed(bench, "side")
    pick = TransplantRequest(
        branch="main", expected=None, source="side", hashes=(ReferenceSpec(None, made),)
    )
    bench.run(bench.repository.merges.cherry_pick(ME, pick))
    assert (bench.tree(), bench.state()) == (AFTER, {"t": "moved"})


@pytest.mark.parametrize("in_file", [True, False])
def test_a_conflict_in_either_leaves_both_as_they_were(bench, in_file):
    changed(bench, "side")
    if in_file:
        bench.put("d/1", b"mine")
        bench.commit_files()
    else:
        bench.change("t", "mine")
    head = bench.head()
    with pytest.raises(KeysConflict) as refused:
        bench.merge("side")
    (conflict,) = details(refused.value)
    assert conflict.path == ("d/1" if in_file else None)
    assert bench.head() == head
    assert bench.state() == {"t": "t" if in_file else "mine"}
    shown = bench.merge("side", conflicts_as_result=True)
    assert not shown.successful
    in_conflict = [one.path for one in shown.paths if one.conflict is not None]
    assert in_conflict == (["d/1"] if in_file else [])


@pytest.mark.parametrize(
    ("default", "paths", "data"),
    [
        ("FORCE", {}, b"other"),
        ("TAKE_TARGET_ON_CONFLICT", {}, b"mine"),
        ("DROP", {"d/1": "FORCE"}, b"other"),
        ("NORMAL", {"d/1": "FORCE"}, b"other"),
        ("NORMAL", {"d/1": "DROP"}, b"mine"),
        ("FORCE", {"d/1": "TAKE_TARGET_ON_CONFLICT"}, b"mine"),
    ],
)
def test_strategies_are_for_all_or_by_path(bench, default, paths, data):
    changed(bench, "side")
    bench.put("d/1", b"mine")
    bench.commit_files()
    bench.merge("side", default=default, paths=paths)
    tree = bench.tree()
    assert tree["d/1"] == data
    assert ("new" in tree) == (default != "DROP")
    with pytest.raises(Invalid):
        bench.merge("side", paths={"d/1": "WIN"})


def test_the_same_file_on_both_sides_is_no_conflict_and_no_difference(bench):
    for branch in ("main", "side"):
        bench.put("new", b"same bytes", branch)
        bench.put("d/1", b"same too", branch)
        bench.commit_files(branch)
    assert compared(bench, "main", "side") == []
    assert bench.merge("side").successful
    bench.put("new", b"same bytes")
    with pytest.raises(NothingToCommit):
        bench.commit_files()


def test_a_commit_of_nothing_is_refused_unless_it_may_be_empty(bench):
    head = bench.head()
    with pytest.raises(NothingToCommit):
        bench.commit_files()
    meta = CommitMeta(message="empty")
    made = bench.run(
        bench.commits.commit(ME, "main", None, meta, [], staged=True, allow_empty=True)
    )
    assert (bench.messages()[0], bench.tree()) == ("empty", BEFORE)
    assert made.hash != head
    with pytest.raises(Invalid):
        bench.commits.commit(ME, "main", None, meta, [], allow_empty=True)


def test_a_refused_table_keeps_the_files_staged(bench):
    bench.put("new", b"new")
    with pytest.raises((KeysConflict, Invalid)):
        bench.commit_files("main", "m", new("t"))
    assert bench.messages() == ["base"]
    assert bench.tree() == {**BEFORE, "new": b"new"}
    bench.commit_files("main", "m", new("u"))
    assert bench.tree(bench.head()) == {**BEFORE, "new": b"new"}


def test_a_commit_that_is_sent_again_is_the_same_commit(bench):
    bench.put("new", b"new")
    first = bench.commit_files("main", "once", new("u"), call=KEYED)
    bench.put("later", b"later")
    assert bench.commit_files("main", "once", new("u"), call=KEYED) == first
    assert bench.messages() == ["once", "base"]
    assert [one.path for one in bench.repository.file_listings.uncommitted(ME, "main").items] == [
        "later"
    ]
    nothing = Call("me", "other", b"another")
    bench.files.delete(ME, "main", "later")
    for _ in range(2):
        with pytest.raises(NothingToCommit):
            bench.commit_files(call=nothing)


def test_differences_of_two_commits_and_since_their_base(bench):
    changed(bench, "side")
    bench.put("e", b"mine")
    bench.commit_files()
    assert compared(bench, "main", "side") == [
        ("d/1", "changed"),
        ("e", "removed"),
        ("new", "added"),
    ]
    assert compared(bench, "main", "side", since_base=True) == [
        ("d/1", "changed"),
        ("e", "removed"),
        ("new", "added"),
    ]
    assert compared(bench, "side", "main", since_base=True) == [("e", "changed")]
    assert compared(bench, "main", "side", delimiter="/") == [
        FilePrefix("d/"),
        ("e", "removed"),
        ("new", "added"),
    ]
    assert compared(bench, "main", "side", prefix="d/") == [("d/1", "changed")]


def test_a_page_of_a_difference_stays_on_both_commits(bench):
    changed(bench, "side")
    diff = bench.repository.file_history.diff
    first = diff(ME, MAIN, parse_spec("side"), limit=1)
    bench.put("zzz", b"z", "side")
    bench.commit_files("side")
    rest = diff(ME, MAIN, parse_spec("side"), limit=10, token=first.token)
    assert [one.path for one in (*first.items, *rest.items)] == ["d/1", "e", "new"]


def test_the_log_of_paths_and_prefixes_is_exact(bench):
    bench.put("d/1", b"2")
    bench.commit_files("main", "one")
    bench.fill("u")
    bench.put("d/1", b"2")
    bench.put("x", b"x")
    bench.commit_files("main", "two")
    bench.files.delete(ME, "main", "d/2")
    bench.commit_files("main", "three")
    for limit in (1, 2, 100):
        assert logged(bench, limit, paths=["d/1"]) == ["one", "base"]
        assert logged(bench, limit, prefixes=["d/"]) == ["three", "one", "base"]
        assert logged(bench, limit, paths=["x"], prefixes=["d/2"]) == ["three", "two", "base"]
        assert logged(bench, limit, prefixes=[""]) == ["three", "two", "one", "base"]
        assert logged(bench, limit, paths=["missing"]) == []
    assert logged(bench, 1, prefixes=["d/"], limit_hash=parse_spec("~2")) == ["three"]
    for wrong in ([], ["x"] * 101, [""]):
        with pytest.raises(Invalid):
            logged(bench, paths=wrong)


def test_the_log_finds_changes_of_commits_that_do_not_list_their_keys(bench):
    for at in range(COMMIT_OWN_KEYS_MAX + 1):
        bench.put(f"many/{at}", b"")
    bench.put("d/2", b"other")
    bench.commit_files("main", "many")
    bench.put("e", b"other")
    bench.commit_files("main", "after")
    assert logged(bench, paths=["d/2"]) == ["many", "base"]
    assert logged(bench, paths=["d/1"]) == ["base"]
    assert logged(bench, prefixes=["many/7"]) == ["many"]


def test_a_page_of_a_log_reads_a_bounded_number_of_commits(bench, monkeypatch):
    monkeypatch.setattr(file_history, "FILE_LOG_SCANNED_MAX", 2)
    for at in range(5):
        bench.fill(f"u{at}")
    log = bench.repository.file_history.log
    first = log(ME, MAIN, paths=["d/1"])
    assert (first.items, first.token is not None) == ((), True)
    assert logged(bench, paths=["d/1"]) == ["base"]


def test_staged_changes_are_dropped_whole_by_prefix_and_by_path(bench):
    def stage() -> None:
        bench.put("d/1", b"x")
        bench.put("e", b"x")
        bench.put("new", b"x")

    resets = bench.repository.resets
    stage()
    resets.reset(ME, "main", path="e")
    assert bench.tree() == {"d/1": b"x", "d/2": b"d/2", "e": b"e", "new": b"x"}
    resets.reset(ME, "main", prefix="d/")
    assert bench.tree() == {**BEFORE, "new": b"x"}
    stage()
    resets.reset(ME, "main")
    assert bench.tree() == BEFORE
    with pytest.raises(NothingToCommit):
        bench.commit_files()
    with pytest.raises(Invalid):
        resets.reset(ME, "main", prefix="d/", path="e")


def test_a_hard_reset_refuses_to_drop_staged_work_unless_the_caller_says_so(bench):
    base, made = bench.head(), changed(bench, "main")
    hard_reset = bench.repository.resets.hard_reset
    bench.put("d/2", b"staged")
    target = parse_spec(base)
    with pytest.raises(StagedWork):
        hard_reset(ME, "main", target)
    with pytest.raises(HeadConflict):
        hard_reset(ME, "main", target, parse_spec(base), discard_staged=True)
    assert bench.head() == made
    moved = hard_reset(ME, "main", target, parse_spec(made), discard_staged=True)
    assert (moved.hash, bench.tree(), bench.state()) == (base, BEFORE, {"t": "t"})
    log = bench.references.log(ME, "main", 10)
    assert log.items[0].kind == "reset"


def test_an_assignment_and_a_forced_move_are_refused_while_files_are_staged(bench):
    changed(bench, "side")
    other, base = bench.head("side"), bench.head()
    move = MoveRequest(branch="main", source=parse_spec("side"))
    bench.put("new", b"staged")
    for call in (ME, KEYED):
        with pytest.raises(StagedWork):
            bench.references.assign(call, "main", None, parse_spec("side"))
        with pytest.raises(StagedWork):
            bench.repository.merges.force(call, move)
    assert (bench.head(), bench.tree()["new"]) == (base, b"staged")
    # To assign it to where it is moves nothing.
    assert bench.references.assign(ME, "main", None, MAIN).hash == base
    assert bench.tree()["new"] == b"staged"
    bench.repository.resets.reset(ME, "main", path="new")
    assert bench.references.assign(ME, "main", None, parse_spec("side")).hash == other
    assert bench.tree() == bench.tree("side")
    with pytest.raises(NothingToCommit):
        bench.commit_files()


def test_a_fast_forward_below_a_staged_file_is_a_conflict(bench):
    changed(bench, "side")
    bench.put("d/1", b"staged")
    bench.put("kept", b"staged")
    move = MoveRequest(branch="main", source=parse_spec("side"))
    with pytest.raises(KeysConflict) as raised:
        bench.repository.merges.fast_forward(ME, move)
    assert [one.path for one in details(raised.value)] == ["d/1"]
    bench.repository.resets.reset(ME, "main")
    bench.put("kept", b"staged")
    assert bench.repository.merges.fast_forward(ME, move).applied
    assert bench.tree() == {**bench.tree("side"), "kept": b"staged"}


def test_a_merge_that_changes_a_staged_file_is_a_conflict(bench):
    changed(bench, "side")
    bench.put("d/1", b"staged")
    with pytest.raises(KeysConflict):
        bench.merge("side")
    assert bench.messages() == ["base"]
    bench.repository.resets.reset(ME, "main")
    bench.put("d/2", b"staged")
    bench.merge("side")
    assert bench.tree() == {**AFTER, "d/2": b"staged"}


def test_an_import_replaces_its_prefix_in_a_commit_of_its_own(tmp_path: Path):
    bench, _ = file_bench(tmp_path)
    lake = tmp_path / "lake"
    (lake / "x").mkdir()
    for name in ("1", "2", "x/3"):
        (lake / name).write_bytes(name.encode() * 10)
    bench.put("in/old", b"old")
    bench.put("out", b"out")
    bench.commit_files()
    sources = [ImportSource(f"file://{lake}/", "in/")]
    seen: list[ImportProgress] = []

    def imports(message: str = "import") -> Imported:
        meta = CommitMeta(message=message)
        pending = bench.repository.imports.import_files(ME, "main", sources, meta, seen.append)
        return bench.run(pending)

    bench.put("in/2", b"staged")
    with pytest.raises(StagedWork):
        imports()
    bench.repository.resets.reset(ME, "main")
    made = imports()
    assert (made.objects, made.hash, seen[-1].objects) == (3, bench.head(), 3)
    tree = bench.tree()
    assert tree == {"in/1": b"1" * 10, "in/2": b"2" * 10, "in/x/3": b"x/3" * 10, "out": b"out"}
    with pytest.raises(NothingToCommit):
        imports()
    (lake / "1").unlink()
    (lake / "4").write_bytes(b"4")
    imports("again")
    assert set(bench.tree()) == {"in/2", "in/4", "in/x/3", "out"}
    assert bench.messages() == ["again", "import", "m"]
    assert compared(bench, "main~1", "main") == [("in/1", "removed"), ("in/4", "added")]
    (lake / "2").write_bytes(b"changed there")
    with pytest.raises(Corrupt):
        bench.read("in/2")


def test_imports_that_cannot_be_are_refused(tmp_path: Path):
    bench, _ = file_bench(tmp_path)
    url = f"file://{tmp_path}/lake/"
    for sources in (
        [],
        [ImportSource(url, "a/"), ImportSource(url, "a/b/")],
        [ImportSource(url, "a/"), ImportSource(url, "a/")],
        [ImportSource(url, "a\0")],
    ):
        with pytest.raises(Invalid):
            bench.repository.imports.import_files(ME, "main", sources, CommitMeta(message="m"))


def test_files_of_a_deleted_branch_do_not_come_back(bench):
    bench.put("staged", b"x", "side")
    bench.references.delete(ME, "side", None)
    bench.branch("side")
    assert bench.tree("side") == BEFORE
    with pytest.raises(PathNotFound):
        bench.files.stat(ME, parse_spec("side"), "staged")
