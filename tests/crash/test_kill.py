"""RocksDB keeps what it acknowledged through kills, and a store that does not is caught."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lochan.testing.contracts import CrashContract
from lochan.testing.contracts.crash import CYCLES, KilledWriter
from tests.profile import counted

MUTANT_WRITER = Path(__file__).with_name("mutant_writer.py")


class TestRocksdb(CrashContract):
    cycles = counted(5, CYCLES)

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"rocksdb:{tmp_path / 'store'}"


@pytest.mark.parametrize("mutant", ["no_log", "early_acknowledgement", "restarting_stamps"])
def test_a_store_that_does_not_keep_its_word_is_caught(mutant: str, tmp_path: Path) -> None:
    command = (sys.executable, str(MUTANT_WRITER), mutant)
    writer = KilledWriter(f"rocksdb:{tmp_path / 'store'}", 5, command)

    def kill_often() -> None:
        for _ in range(30):
            writer.run_and_kill()

    with pytest.raises(AssertionError):
        kill_often()
