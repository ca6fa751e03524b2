"""Between the write of a value and its acknowledgement the log is synchronised to the disk.

A kill -9 cannot show this, because the page cache outlives the process.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.trace import Call, find_broken_promise, read_trace

CHILD = Path(__file__).with_name("flushing_child.py")
MARKER = "value-that-must-reach-the-disk"
ACKNOWLEDGEMENT = "acknowledged-to-the-caller"
TRACED = "trace=write,pwrite64,writev,pwritev,fsync,fdatasync"


def trace(path: Path, fault: str) -> list[Call]:
    """Runs the child under strace and returns its system calls."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace to watch system calls; install the package strace")
    output = path / "trace"
    command = [strace, "-f", "-y", "-s", "500", "-e", TRACED, "-o", str(output)]
    command += [sys.executable, str(CHILD), str(path / "store"), fault]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("strace may not trace here; allow ptrace (in a container: SYS_PTRACE)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ACKNOWLEDGEMENT
    return read_trace(output.read_text(errors="replace").splitlines())


def test_the_log_is_synchronised_between_a_value_and_its_acknowledgement(tmp_path: Path) -> None:
    calls = trace(tmp_path, "honest")
    assert find_broken_promise(calls, MARKER, ACKNOWLEDGEMENT) is None
    assert any(call.path.endswith("store") for call in calls if call.name == "fsync"), (
        "the directory is synchronised too, or the log's name may be lost"
    )


@pytest.mark.parametrize(
    "fault",
    ["no_op_flush", "no_op_synchronise", "flush_without_sync", "flush_of_the_last_epoch"],
)
def test_a_flush_that_does_nothing_is_noticed(fault: str, tmp_path: Path) -> None:
    broken = find_broken_promise(trace(tmp_path, fault), MARKER, ACKNOWLEDGEMENT)
    assert broken is not None
    assert "not synchronised" in broken


VALUE = f'7 write(8</s/4.log>, "{MARKER}", 30) = 30'
SYNC = "7 fdatasync(8</s/4.log>) = 0"
PROMISE = f'7 write(1<pipe:[1]>, "{ACKNOWLEDGEMENT}", 26) = 26'


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        ([VALUE, SYNC, PROMISE], None),
        ([VALUE, PROMISE, SYNC], "not synchronised"),
        ([SYNC, VALUE, PROMISE], "not synchronised"),
        ([VALUE, SYNC.replace("4.log", "5.log"), PROMISE], "not synchronised"),
        (
            [VALUE, SYNC.replace("= 0", "= -1 EIO (Input/output error)"), PROMISE],
            "not synchronised",
        ),
        ([SYNC, PROMISE], "never written"),
        ([PROMISE, VALUE, SYNC], "before it was written"),
        ([VALUE, SYNC], "0 acknowledgements"),
        (
            [
                VALUE,
                "8 fdatasync(8</s/4.log> <unfinished ...>",
                PROMISE,
                "8 <... fdatasync resumed>) = 0",
            ],
            "not synchronised",
        ),
        (
            [
                VALUE,
                "8 fdatasync(8</s/4.log> <unfinished ...>",
                "8 <... fdatasync resumed>) = 0",
                PROMISE,
            ],
            None,
        ),
    ],
)
def test_the_checker_reads_traces_rightly(lines: list[str], broken: str | None) -> None:
    found = find_broken_promise(read_trace(lines), MARKER, ACKNOWLEDGEMENT)
    if broken is None:
        assert found is None
    else:
        assert found is not None
        assert broken in found
