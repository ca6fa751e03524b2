"""Commits that are refused again and again leave a branch that can be written and committed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lochan.base.errors import Exhausted, KeysConflict, NothingToCommit, Unavailable
from lochan.base.keys import file_key
from lochan.base.limits.staging import FOLDED_SMALL_MAX, SEALED_FOLD_MIN, SEALED_TOKENS_MAX
from lochan.staging import tokens
from lochan.staging.committer import CommitTexts
from lochan.staging.folds import is_folded, left_of
from lochan.staging.sweeper import sweep_tokens
from tests.staging.test_listing import listed
from tests.staging.workbench import HOUR_US, MAIN, StagingBench, TablePut, entry_of


@pytest.fixture
def bench():
    bench = StagingBench()
    bench.publisher.publish([TablePut("t")])
    return bench


def refuse(bench):
    with pytest.raises(KeysConflict):
        bench.commit_files(tables=TablePut("t", "other", absent=True))


def seal(bench, times):
    for number in range(times):
        bench.put(f"sealed{number:02}")
        bench.staging.committer.prepare(MAIN, CommitTexts("never published"))


@pytest.mark.slow
def test_after_1_000_refused_commits_a_commit_takes_everything(bench):
    files: dict[str, str] = {}
    for number in range(1_000):
        path = f"f{number % 37}"
        if number % 5 == 4:
            assert bench.delete(path) == (path in files)
            files.pop(path, None)
        elif number % 11 == 10:
            bench.staging.resets.reset_key(MAIN, file_key(path))
            files.pop(path, None)
        else:
            files[path] = str(number)
            bench.put(path, files[path])
        refuse(bench)
        assert len(bench.row().sealed_tokens) <= SEALED_FOLD_MIN
        assert bench.read(path) == files.get(path)
    bench.commit_files()
    assert bench.files() == files
    assert bench.row().sealed_tokens == ()
    for _ in range(3):
        bench.clock.advance_us(HOUR_US)
        sweep_tokens(bench.context)
    assert set(bench.partitions()) == {bench.row().staging_token}


def test_a_reset_takes_what_its_tokens_were_folded_into(bench):
    """The reset has read the row; then another server folds and seals."""
    seal(bench, SEALED_FOLD_MIN)
    bench.put("staged")
    row = bench.row()
    seal(bench, 1)
    commit = bench.staging.committer.prepare(MAIN, CommitTexts("beside"))
    assert any(is_folded(token) for token in bench.row().sealed_tokens)
    bench.staging.resets._tokens.discard(row)
    assert listed(bench) == []
    with pytest.raises(NothingToCommit):
        commit.finish(bench.publisher.publish([commit])[0])
    bench.put("later")
    bench.commit_files()
    assert bench.files() == {"later": "later"}


def test_many_sealed_tokens_become_one_and_the_branch_shows_the_same(bench):
    for path in ("deleted", "replaced", "reset"):
        bench.put(path, "old")
    seal(bench, 5)
    bench.put("replaced", "new")
    bench.delete("deleted")
    bench.staging.resets.reset_key(MAIN, file_key("reset"))
    seal(bench, SEALED_FOLD_MIN - 5)
    before = listed(bench)
    seal(bench, 1)
    token, _ = bench.row().sealed_tokens
    assert is_folded(token)
    assert listed(bench) == before
    assert [bench.read(path) for path in ("deleted", "replaced", "reset")] == [None, "new", None]
    bench.commit_files()
    assert sorted(bench.files().items()) == before


def test_a_commit_under_way_takes_the_token_that_its_own_were_folded_into(bench):
    other = bench.other()
    bench.put("mine")
    commit = bench.staging.committer.prepare(MAIN, CommitTexts("mine"))
    seal(other, SEALED_FOLD_MIN)
    bench.put("later")
    (settled,) = bench.publisher.publish([commit])
    assert len(commit.finish(settled).commits) == 1
    assert "mine" in bench.files()
    assert "later" not in bench.files()
    assert bench.read("later") == "later"


def test_a_commit_whose_folded_records_another_one_took_is_empty_and_keeps_its_message(bench):
    other = bench.other()
    bench.put("mine")
    commit = bench.staging.committer.prepare(MAIN, CommitTexts("mine"))
    seal(other, SEALED_FOLD_MIN)
    other.commit_files("theirs")
    (settled,) = bench.publisher.publish([commit])
    (made,) = commit.finish(settled).commits
    assert made.body is not None
    assert made.body.message == "mine"
    assert "mine" in bench.files()


def test_a_large_token_is_not_copied_with_small_ones(bench):
    items = [(file_key(f"large{n:05}"), entry_of("x")) for n in range(FOLDED_SMALL_MAX + 1)]
    bench.staging.writer.put_many(MAIN, items)
    bench.staging.committer.prepare(MAIN, CommitTexts("never published"))
    (large,) = bench.row().sealed_tokens
    seal(bench, SEALED_FOLD_MIN)
    first, second, _ = bench.row().sealed_tokens
    assert (first, is_folded(second)) == (large, True)
    bench.commit_files()
    assert len(bench.files()) == len(items) + SEALED_FOLD_MIN


def test_writes_go_on_if_nothing_can_be_folded(bench, monkeypatch):
    def fail(*_):
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "copy_records", fail)
        for number in range(SEALED_TOKENS_MAX + 3):
            bench.put(f"f{number}")
            with suppress(KeysConflict, Exhausted):
                bench.commit_files(tables=TablePut("t", "other", absent=True))
        assert len(bench.row().sealed_tokens) == SEALED_TOKENS_MAX
        with pytest.raises(Exhausted):
            bench.commit_files()
    assert bench.read("f34") == "f34"
    bench.commit_files()
    assert len(bench.files()) == SEALED_TOKENS_MAX + 3


A, B, C, D = (bytes((byte,)) * 16 for byte in range(4))
F = b"f" * 17


@pytest.mark.parametrize(
    ("sealed", "left"),
    [
        ((A, B, C), (A, B)),
        ((B, C), (B,)),
        ((C, D), ()),
        ((F,), (F,)),
        ((F, C), (F,)),
        ((A, F, C), (A, F)),
        ((F, B, C), (F, B)),
        ((), ()),
    ],
)
def test_a_commit_takes_its_own_tokens_or_those_that_they_may_be_folded_into(sealed, left):
    assert left_of((A, B), sealed) == left
