"""The rows of files over HTTP run on our server and are shown beside what was recorded."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.http_files.recorded import LAKEFS
from benchmarks.http_files.rows import ROWS, split
from benchmarks.http_files.script import Script, Scripted
from benchmarks.http_files.table import table, times_faster

LINE = {
    "benchmark": "files_http", "workload": "upload-one", "clients": 64, "ops_s": 8_112.0,
    "p50_ms": 1.0, "p99_ms": 2.0, "errors": 0, "conflicts": 1, "server_cpu_ms_per_counted": 0.1,
}  # fmt: skip


def test_every_row_has_a_recorded_figure_and_the_other_way_round():
    assert {split(row)[0] for row in LAKEFS} == set(ROWS)
    with pytest.raises(ValueError, match="names are"):
        split("no-row:1")


def test_a_row_is_compared_by_its_rate_or_by_its_latency():
    assert times_faster(LINE) == 2.0
    assert times_faster(LINE | {"workload": "commit-10", "clients": 1}) == 15.3
    assert times_faster(LINE | {"clients": 3}) is None
    assert "64 (disturbed) |" in table([LINE | {"other_cores": 0.2}])
    assert "| 8,112, 1.00/2.0 | 0.10 | 4,728, 12.2/34 | 4,056, 14.9/36 | 2.0 | 1 refused |" in (
        table([LINE])
    )


def test_a_script_gets_the_answer_to_each_of_its_requests():
    seen = []

    def script() -> Script:
        seen.append((yield "first", b"1"))
        seen.append((yield "second", b"2"))

    client = Scripted(script())
    assert (client.request(), client.kind) == (b"1", "first")
    client.settle(200, b"one")
    assert (client.request(), client.kind) == (b"2", "second")
    client.settle(200, b"two")
    assert client.request() is None
    assert seen == [b"one", b"two"]


@pytest.mark.slow
def test_every_row_runs_and_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name}:2" for name in ROWS]
    main(["files-http", "--rows", *rows, "--seconds", "0.3", "--warm", "0", "--scale", "0.01"])
    output = capsys.readouterr()
    calibration, *lines = [json.loads(line) for line in output.out.splitlines()]
    assert calibration["python_steps_s"] > 0
    assert calibration["synchronised_writes_s"] > 0
    assert [line["workload"] for line in lines] == list(ROWS)
    for line in lines:
        assert (line["errors"], line["conflicts"]) == (0, 0), line
        # On a busy machine a window may end before the first answer.
        assert line["counted"] >= 0
    pairs = next(line for line in lines if line["workload"] == "upload-commit-one")
    assert 0 <= pairs["empty_share"] < 1
    assert "calibration:" in output.err
