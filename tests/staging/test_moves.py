"""Moves of branches that have staged files: fast-forward, rebase and force."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.base.errors import KeysConflict, StagedWork
from lochan.base.keys import file_key
from lochan.kernel.head_moves import HeadMoved, HeadMoves, Source
from lochan.kernel.merge_choices import MergeConflict
from lochan.kernel.provenance import Initiator
from lochan.staging.committer import CommitTexts
from tests.staging.workbench import MAIN, SIDE, StagingBench

WHO = Initiator("test")


@pytest.fixture
def bench() -> StagingBench:
    """Side has two files otherwise than main, and one that main has not."""
    bench = StagingBench()
    for path in ("a", "b", "c"):
        bench.put(path, "old")
    bench.commit_files()
    bench.branch(SIDE)
    bench.put("a", "side", SIDE)
    bench.put("n", "side", SIDE)
    bench.delete("b", SIDE)
    bench.commit_files(branch=SIDE)
    return bench


def moves(bench: StagingBench) -> HeadMoves:
    return HeadMoves(bench.context, bench.names, bench.staging.guard)


def forward(bench: StagingBench, *, dry_run: bool = False) -> HeadMoved:
    return moves(bench).fast_forward(MAIN, Source(bench.head(SIDE)), WHO, dry_run=dry_run)


def rebase(bench: StagingBench, *, dry_run: bool = False) -> HeadMoved:
    return moves(bench).rebase(MAIN, Source(bench.head(SIDE)), WHO, dry_run=dry_run)


def force(bench: StagingBench, *, dry_run: bool = False) -> HeadMoved:
    return moves(bench).force(MAIN, Source(bench.head(SIDE)), WHO, dry_run=dry_run)


def shown(bench: StagingBench) -> list[str | None]:
    return [bench.read(path) for path in ("a", "b", "c", "n")]


def commit_beside(bench: StagingBench) -> None:
    """Main gets a commit that side has not; then only a rebase can follow."""
    bench.put("own", "own")
    bench.commit_files()


@pytest.mark.parametrize("move", [forward, rebase])
@pytest.mark.parametrize("sealed", [False, True])
def test_staged_files_that_a_move_changes_are_a_conflict_and_the_others_stay_on_top(
    bench: StagingBench, move: Callable[..., HeadMoved], sealed: bool
) -> None:
    if move is rebase:
        commit_beside(bench)
    bench.put("a", "mine")
    bench.put("b", "mine")
    bench.put("c", "mine")
    if sealed:
        bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    before = bench.head()
    for dry_run in (True, False):
        with pytest.raises(KeysConflict, match="2 files are staged") as raised:
            move(bench, dry_run=dry_run)
        found = [one.key for one in raised.value.details if isinstance(one, MergeConflict)]
        assert found == [file_key("a"), file_key("b")]
    assert bench.head() == before
    assert shown(bench) == ["mine", "mine", "mine", None]
    bench.staging.resets.reset_branch(MAIN)
    bench.put("c", "mine")
    assert move(bench).moved
    assert shown(bench) == ["side", None, "mine", "side"]
    bench.commit_files()
    assert shown(bench) == ["side", None, "mine", "side"]


def test_files_that_are_staged_as_the_move_brings_them_are_no_conflict(bench):
    bench.put("a", "side")
    bench.delete("b")
    assert forward(bench).moved
    assert bench.staging.uncommitted.is_clean(MAIN)


def test_a_record_that_agrees_with_the_old_head_is_a_conflict_of_a_fast_forward(bench):
    """It would hide the new head, and the next commit would undo it."""
    bench.put("a", "mine")
    bench.put("a", "old")
    with pytest.raises(KeysConflict):
        forward(bench)
    bench.staging.resets.reset_branch(MAIN)
    assert forward(bench).moved
    assert shown(bench) == ["side", None, "old", "side"]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_forced_move_is_refused_while_any_file_is_staged(bench, sealed):
    bench.put("unrelated", "mine")
    if sealed:
        bench.staging.committer.prepare(MAIN, CommitTexts("sealed"))
    before = bench.row()
    for dry_run in (True, False):
        with pytest.raises(StagedWork, match="'main' has staged changes; commit or reset"):
            force(bench, dry_run=dry_run)
    assert bench.row() == before
    bench.staging.resets.reset_branch(MAIN)
    assert force(bench).moved
    assert shown(bench) == ["side", None, "old", "side"]


def test_a_forced_move_leaves_no_record_that_would_be_a_change(bench):
    bench.put("a", "old")
    bench.put("n", "mine")
    bench.delete("n")
    before = bench.row()
    assert force(bench, dry_run=True).moved
    assert bench.row() == before
    assert force(bench).moved
    assert bench.row().sealed_tokens == ()
    assert shown(bench) == ["side", None, "old", "side"]
    assert bench.staging.uncommitted.is_clean(MAIN)


def test_a_file_that_is_staged_during_a_forced_move_stays_staged(bench):
    bench.put("a", "old")
    guard, rounds = bench.staging.guard, []

    class Beside:
        def prepare(self, row, *, dry_run):
            guard.prepare(row, dry_run=dry_run)
            if len(rounds) == 1:
                bench.put("n", "late")
            rounds.append(row)

    heads = HeadMoves(bench.context, bench.names, Beside())
    assert heads.force(MAIN, Source(bench.head(SIDE)), WHO).moved
    assert len(rounds) == 2
    assert shown(bench) == ["side", None, "old", "late"]
