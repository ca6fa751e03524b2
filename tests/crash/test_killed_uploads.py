"""kill -9 during uploads: acknowledged blocks are there, no block is half there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from lochan.assembly.blocks import open_blocks
from lochan.testing.killed_uploader import STARTING, check_blocks, content_of_number
from tests.profile import counted

LINES_BEFORE_KILL = (0, 0, 1, 1, 2, 3, 5, 8)


def run_and_kill(command: list[str], random: Random) -> dict[int, str]:
    """Lets an uploader acknowledge some blocks, kills it, returns what it acknowledged."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as uploader:
        assert uploader.stdout is not None
        try:
            lines = [uploader.stdout.readline()]
            wanted = random.choice(LINES_BEFORE_KILL)
            lines += [uploader.stdout.readline() for _ in range(wanted)]
            for _ in range(random.randrange(50_000)):
                pass
        finally:
            uploader.kill()
        lines += uploader.stdout.readlines()
    assert uploader.returncode == -SIGKILL
    assert lines[0] == STARTING
    words = [line.split() for line in lines[1:] if line.endswith(b"\n")]
    return {int(number): address.decode() for number, address in words}


def test_no_kill_leaves_half_a_block_or_loses_one(tmp_path, record_property):
    cycles = counted(8, 60)
    random = Random(4)
    root = tmp_path / "blocks"
    acknowledged: dict[int, str] = {}
    first = 1
    left = 0
    for _ in range(cycles):
        command = [sys.executable, "-m", "lochan.testing.killed_uploader", f"file:{root}"]
        acknowledged |= run_and_kill([*command, str(first)], random)
        place = open_blocks(root)
        found = check_blocks(place, acknowledged)
        assert len(found - acknowledged.keys()) <= cycles
        left += place.sweep_unfinished(1 << 62)
        assert os.listdir(root / "uploads") == []
        assert check_blocks(place, acknowledged) == found
        place.close()
        first = max([first, *found, *acknowledged]) + 2
    assert len(acknowledged) > cycles
    record_property("counted", f"killed uploads: {cycles}, acknowledged {len(acknowledged)}, "
                               f"swept {left}")  # fmt: skip


def test_half_a_block_would_be_noticed(tmp_path: Path) -> None:
    place = open_blocks(tmp_path / "blocks")
    with place.begin() as upload:
        upload.write(content_of_number(9)[:-1])
        block = upload.finish()
    with pytest.raises(AssertionError, match="whole"):
        check_blocks(place, {})
    place.delete(block.address)
    with pytest.raises(AssertionError, match="acknowledged"):
        check_blocks(place, {9: block.address})
    place.close()
