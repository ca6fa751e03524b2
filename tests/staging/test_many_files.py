"""Commits of so many files that they are streamed: the same commits as those of operations."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import NothingToCommit
from lochan.base.ids import ObjId
from lochan.kernel.preparation import Preparation, publish_prepared
from lochan.kernel.publish import Proposal, Published, Settled
from lochan.staging import committer
from lochan.staging.committer import CommitTexts
from lochan.testing.invariants import check_chain
from tests.profile import counted
from tests.staging.workbench import MAIN, StagingBench, TablePut

SEEDS = counted(12, 300)


def staged_and_committed(seed: int) -> list[tuple[dict[str, str], bytes, ObjId | None]]:
    """Commits random changes three times; returns files, digest of operations, root of the tree."""
    random, bench, found = Random(seed), StagingBench(seed=seed), []
    paths = [f"d{random.randrange(4)}/{number}" for number in range(random.choice([9, 90, 900]))]
    files: dict[str, str] = {}
    for round_number in range(3):
        committed = bench.files()
        for path in random.sample(paths, random.randrange(1, len(paths))):
            if random.random() < 0.2:
                assert bench.delete(path) == (path in files)
                files.pop(path, None)
            elif random.random() < 0.2:
                reset(bench, path, files, committed)
            else:
                files[path] = random.choice([files.get(path, ""), f"{path} {round_number}"]) or path
                bench.put(path, files[path])
            if random.random() < 0.01:
                bench.staging.committer.prepare(MAIN, CommitTexts("seals and dies"))
        try:
            tables = TablePut(f"t{round_number}") if random.random() < 0.3 else None
            bench.commit_files(tables=tables)
        except NothingToCommit:
            continue
        assert bench.files() == files
        head = bench.head()
        assert head.body is not None
        root = head.files.root if head.files.embedded is None else None
        found.append((bench.files(), head.body.operations, root))
    check_chain(bench.context, bench.head().obj_id)
    return found


def reset(bench: StagingBench, path: str, files: dict[str, str], committed: dict[str, str]) -> None:
    """Gives up what is staged at some paths; then the branch shows its head there."""
    below = path[: path.index("/") + 2]
    bench.staging.resets.reset_prefix(MAIN, below)
    for one in [one for one in files if one.startswith(below)]:
        del files[one]
    files.update({one: value for one, value in committed.items() if one.startswith(below)})


@pytest.mark.parametrize("seed", range(SEEDS))
def test_streamed_files_are_committed_like_operations(seed, monkeypatch):
    expected = staged_and_committed(seed)
    monkeypatch.setattr(committer, "_OPERATIONS_MAX", 0)
    streamed = staged_and_committed(seed)
    assert [one[:2] for one in streamed] == [one[:2] for one in expected]
    for (_, _, root), (_, _, wanted) in zip(streamed, expected, strict=True):
        assert wanted is None or root == wanted


def test_many_files_are_prepared_outside_the_lane_and_meet_a_later_head():
    bench = StagingBench()
    bench.put("kept", "kept")
    bench.commit_files()
    count = 2 * committer._OPERATIONS_MAX
    for number in range(count):
        bench.put(f"many/{number:05}")
    commit = bench.staging.committer.prepare(MAIN, CommitTexts("many"))
    preparation = Preparation(bench.publisher, commit)
    assert preparation.advance() is None
    bench.publisher.publish([TablePut("table")])
    done = publish_prepared(preparation, lambda one: in_lane(bench, one))
    assert isinstance(done, Published)
    assert len(bench.files()) == count + 1
    assert bench.row().sealed_tokens == ()
    check_chain(bench.again().context, done.head.obj_id)


def in_lane(bench: StagingBench, proposal: Proposal) -> Settled:
    (settled,) = bench.publisher.publish([proposal])
    return settled
