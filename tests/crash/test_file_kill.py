"""Kills of a server that stages and commits files: nothing acknowledged is lost or there twice.

After every restart on the same store, each file is what its client was told, every write is a
change of one commit at most or is still staged, and no file is half there.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from benchmarks.http_load.processes import start_lochan
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.model.files import FileInfo
from tests.crash.killed_files import FileJournal, Life, Remains, Write, body_of
from tests.profile import counted

KILLS = counted(4, 32)
WRITES = counted(600, 20_000)

# Writes acknowledged before a kill, as parts of a thousand of the mean; 0 kills at once.
PATIENCE = (0, 2, 20, 200, 1_000, 1_500, 2_000, 3_000)


@pytest.mark.timeout(600)
def test_acknowledged_files_survive_kills_once(tmp_path: Path, record_property: Any) -> None:
    store, random = f"rocksdb:{tmp_path / 'store'}", Random(11)
    journal = FileJournal()
    remains = Remains(journal)
    kills = 0
    while kills < KILLS or journal.acknowledged < WRITES:
        with start_lochan(store, tmp_path) as served:
            with Client(served.address) as client:
                remains.look(client, random)
            mean = WRITES // KILLS
            enough = 1 + mean * random.choice(PATIENCE) // 1_000
            life = Life(journal, kills, enough, served.kill)
            life.run(served.address, random.choice((4, 8, 12)), kills)
            kills += 1
    with start_lochan(store, tmp_path) as served, Client(served.address) as client:
        remains.look(client, random)
    with open_repository(store) as repository:
        assert not repository.check(history=True).findings
    counts = journal.counts()
    commits = [outcome for outcome in journal.commits.values() if len(outcome) > 10]
    record_property(
        "counted", f"{kills} kills of a server with files: {counts}, {len(commits)} commits"
    )
    assert counts["unknown"] > 0, "some writes must have been under way"
    assert commits


@pytest.mark.parametrize(
    ("changes", "shown", "reason"),
    [
        (["1"], None, "not one of"),
        (["1", "2", "1"], "1", "not one of"),
        (["1", "2", "2"], "2", "twice"),
        (["2", "1", "2"], "2", "twice"),
        (["1"], "2", r"\['1'\]"),
    ],
    ids=["lost", "an old one", "twice", "out of order", "in no commit"],
)
def test_each_violation_is_found(changes: Any, shown: Any, reason: str) -> None:
    writes = [Write("1", "acknowledged"), Write("2", "acknowledged")]
    remains = Remains(FileJournal())
    remains._changes["p"] = changes
    with pytest.raises(AssertionError, match=reason):
        remains._check_path("p", writes, info_of(shown) if shown else None, None)


def test_half_a_file_is_found() -> None:
    half = msgspec.structs.replace(info_of("1"), size=1)
    remains = Remains(FileJournal())
    remains._changes["p"] = ["1"]
    with pytest.raises(AssertionError, match="not whole"):
        remains._check_path("p", [Write("1", "acknowledged")], half, None)


def info_of(value: str) -> FileInfo:
    body = body_of(value)
    return FileInfo(
        path="p",
        size=len(body),
        etag="",
        modified_us=0,
        sha256=sha256(body).hexdigest(),
        metadata=(("w", value),),
    )
