"""The figures of the pipeline on the page about performance are those that were measured."""

from __future__ import annotations

from benchmarks.report import PAGE
from benchmarks.spark.page import MEASURED, keep, read_lines, render

TEXT = PAGE.read_text("utf-8")
LINES = read_lines(MEASURED)
FEED = {
    "benchmark": "spark_feed",
    "commits": 100_000,
    "batch_commits_per_s": 6_000,
    "batch_rates": [5_000, 6_000, 7_000],
    "stream_commits_per_s": 4_000,
    "stream_rates": [4_000, 4_000, 4_500],
}


def checked(ratio, checks="counted"):
    about = {"benchmark": "spark_checks", "checks": checks, "rows": 1_000}
    return about | {
        "ratio": ratio,
        "ratio_max": 1.05,
        "is_met": ratio <= 1.05,
        "cpu_s": ratio * 10,
        "plain_cpu_s": 10.0,
    }


def test_the_page_is_what_the_report_makes_of_the_measured_lines():
    assert render(TEXT, LINES) == TEXT


def test_every_part_was_measured():
    parts = {"spark_read", "spark_write", "spark_checks", "spark_feed"}
    assert {line["benchmark"] for line in LINES} == parts


def test_bars_that_are_missed_are_called_missed():
    page = render(TEXT, [checked(1.06), FEED])
    row = "| 1,000 rows | CPU, times ≤ 1.05 | 1.060 (10.60 s to 10.00 s) | **missed** |"
    assert row in page
    assert "| commits/s ≥ 5,000 | 6,000 (5,000 to 7,000) | met |" in page
    assert "| commits/s ≥ 5,000 | 4,000 (4,000 to 4,500) | **missed** |" in page


def test_what_the_runtime_took_stands_beside_it():
    line = checked(1.0) | {"benchmark": "spark_write", "shape": "flat", "runtime_ratio": 0.876}
    del line["checks"]
    assert "| 1.000 (10.00 s to 10.00 s); 0.88 of Iceberg's runtime | met |" in render(TEXT, [line])


def test_a_newer_run_replaces_what_it_measured_and_leaves_the_rest():
    old = [checked(1.5), checked(1.2, "pattern")]
    skipped = {"benchmark": "spark_runtime", "skipped": "its jar could not be fetched"}
    new = keep(old, [checked(1.0), {"benchmark": "machine"}, skipped])
    assert [line["ratio"] for line in new] == [1.0, 1.2]


def test_lines_of_java_between_the_figures_are_passed_over(tmp_path):
    (tmp_path / "run").write_text('WARN something\n{"benchmark": "spark_feed"}\n')
    assert read_lines(tmp_path / "run") == [{"benchmark": "spark_feed"}]
