"""Random mixes of operations on files, tables and branches agree with a plain model."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.embedded import open_repository
from tests.profile import counted
from tests.stateful.file_walk import FileWalk


@pytest.mark.parametrize("seed", range(counted(4, 100)))
def test_files_and_tables_agree_with_a_plain_model(seed: int) -> None:
    with open_repository("memory:") as repository:
        walk = FileWalk(repository, seed)
        for _ in range(counted(80, 300)):
            walk.step()
        assert not repository.check(history=True).findings


def test_the_same_on_rocksdb_with_every_kind_of_step(tmp_path: Path) -> None:
    with open_repository(f"rocksdb:{tmp_path}/store") as repository:
        walk = FileWalk(repository, 7)
        for _ in range(counted(250, 3_000)):
            walk.step()
        assert not repository.check(history=True).findings
    steps = {name.split()[0] for name in walk.done}
    assert len(steps) >= 12, walk.done
    assert walk.done["merge over a reset"] >= counted(1, 20), walk.done
    for both in ("merge", "conditional", "commit"):
        assert sum(name.startswith(f"{both} ") for name in walk.done) >= 2, walk.done
