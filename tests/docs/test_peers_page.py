"""The comparison on the page about performance shows what was measured."""

from __future__ import annotations

import re

import pytest

from benchmarks.http_load.page import DOCS, MEASURED, SECTIONS, charts, keep, read_lines, render
from benchmarks.report import PAGE

LINES = read_lines(MEASURED)
TEXT = PAGE.read_text("utf-8")


def peer(server, ops_s, p99_ms, **more):
    about = {"benchmark": "peer", "store": "rocksdb", "workload": "commit-one", "clients": 64}
    figures = {"ops_s": ops_s, "p50_ms": 1.0, "p99_ms": p99_ms, "server_cpu_us_per_op": 10.0}
    figures |= {"generator_cores": 0.1, "resident_mb": 50.0, "errors": 0}
    return {**about, "server": server, "round": 1, "quiet": True, **figures, **more}


def both(ours, theirs):
    return keep([], [peer("lochan", *ours), peer("nessie", *theirs)])


def test_the_page_is_what_the_report_makes_of_the_compared_lines():
    assert render(TEXT, LINES) == TEXT
    assert sorted(re.findall(r"<!-- compared: (\w+) -->", TEXT)) == sorted(SECTIONS)


def test_the_charts_are_those_of_the_compared_lines():
    assert {path.name: path.read_text("utf-8") for path in DOCS.glob("*.svg")} == charts(LINES)


def test_a_row_shows_both_servers_and_how_many_times_better_ours_is():
    page = render(TEXT, both((6_100.0, 20.0), (265.0, 1_600.0)))
    assert "| commit 1 put, one branch : 64 | 6,100, 1.00/20 | 265, 1.00/1,600 | 23 | 80 |" in page
    assert "| … p99 ms | ≤ 50 | 20 | met |" in page


@pytest.mark.parametrize(
    ("ours", "row"),
    [
        ((5_000.0, 20.0), "| … commits/s | ≥ 6,000 | 5,000 | **missed** |"),
        ((5_000.0, 20.0), "| RocksDB, 64 clients on one branch | times ≥ 20 | 18.9 | **missed** |"),
        ((6_100.0, 60.0), "| … p99 ms | ≤ 50 | 60 | **missed** |"),
        ((200.0, 20.0), "| all | behind: commit 1 put, one branch : 64 | **missed** |"),
        ((300.0, 2_000.0), "| all | behind: commit 1 put, one branch : 64 | **missed** |"),
    ],
)
def test_a_promise_that_is_not_kept_is_called_missed(ours, row):
    assert row in render(TEXT, both(ours, (265.0, 1_600.0)))


def test_the_median_of_quiet_windows_counts_and_a_row_without_any_says_so():
    windows = [peer("lochan", rate, 5.0) for rate in (10.0, 30.0, 20.0)]
    windows.append(peer("lochan", 1_000.0, 5.0, quiet=False))
    windows.append(peer("nessie", 5.0, 5.0, quiet=False))
    ours, theirs = keep([], windows)
    assert (ours["ops_s"], ours["rounds"], ours["quiet_rounds"]) == (20.0, 3, 3)
    assert (theirs["ops_s"], theirs["rounds"], theirs["quiet_rounds"]) == (5.0, 1, 0)
    assert "one branch : 64 (disturbed) |" in render(TEXT, [ours, theirs])


def test_a_newer_run_replaces_what_it_measured_and_leaves_the_rest():
    old = both((1.0, 1.0), (2.0, 2.0))
    new = keep(old, [peer("lochan", 9.0, 9.0)])
    assert [(line["server"], line["ops_s"]) for line in new] == [("lochan", 9.0), ("nessie", 2.0)]


def test_runs_with_authentication_are_shown_apart():
    plain = both((6_100.0, 20.0), (265.0, 1_600.0))
    lines = keep(
        plain,
        [
            peer(*one, authenticated=True)
            for one in (("lochan", 5_300.0, 5.0), ("nessie", 265.0, 9.0))
        ],
    )
    assert len(lines) == 4
    page = render(TEXT, lines)
    assert page.count("| 6,100, 1.00/20 |") == page.count("| 5,300, 1.00/5.0 |") == 1
    assert "| … commits/s | ≥ 6,000 | 6,100 | met |" in page


def test_a_chart_has_two_bars_for_each_row():
    (drawn,) = charts(both((6_100.0, 20.0), (265.0, 1_600.0))).values()
    assert drawn.count("<rect") == 1 + 2
    assert "23 times" in drawn


def test_experiments_are_shown_with_their_figures():
    about = {"server": "lochan", "store": "rocksdb"}
    lines = [
        {
            "benchmark": "asymmetric",
            **about,
            "pairs": 1,
            "small_commits_s": 100.0,
            "large_commits_s": 50.0,
            "small_to_large": 2.0,
        },
        {
            "benchmark": "generated",
            **about,
            "workload": "tables",
            "commits": 1_000,
            "puts": 1,
            "keys": 5,
            "commits_s_by_decile": [10.0] * 9 + [5.0],
            "first_to_last": 2.0,
            "p99_ms": 7.0,
        },
        {
            "benchmark": "simulated",
            **about,
            "simulation": "mixed-workloads",
            "users": 1,
            "read_ops_s": 10.0,
            "read_p99_ms": 3.0,
        },
    ]
    page = render(TEXT, keep([], lines))
    assert "| small to large committers | 0.8 to 1.25 | 2.00 | **missed** |" in page
    assert "| generator workloads, first decile to last | times ≤ 1.5 | 2.0 | **missed** |" in page
    assert "| 10 10 10 10 10 10 10 10 10 5 | 2.0 | 7.0 |" in page
    assert "| mixed-workloads | lochan on rocksdb | 1 | read 10.0/s, p99 3.0 ms |" in page
