"""The page about performance shows what was measured; no figure was typed by hand."""

from __future__ import annotations

import re

import pytest

from benchmarks.report import MAIN, MEASURED, PAGE, SECTIONS, keep_best, read_lines, render

LINES = read_lines(MEASURED)
TEXT = PAGE.read_text("utf-8")


def test_the_page_is_what_the_report_makes_of_the_measured_lines():
    assert render(TEXT, LINES) == TEXT


def test_every_section_is_on_the_page_once():
    assert sorted(re.findall(r"<!-- measured: (\w+) -->", TEXT)) == sorted(SECTIONS)


def test_a_figure_changed_by_hand_is_noticed():
    row = re.search(r"\| one put, new random keys \|.*", TEXT)
    assert row is not None
    changed = TEXT.replace(row[0], re.sub(r"\d+ \| (met|\*\*missed\*\*)", r"1 | met", row[0]))
    assert changed != TEXT
    assert render(changed, LINES) == TEXT


def test_every_kind_of_line_was_measured():
    assert {line["benchmark"] for line in LINES} == set(MAIN)
    changes = [line for line in LINES if line["benchmark"] == "change"]
    assert len(changes) == 2 * 2 * 3


def test_a_bar_that_is_missed_is_called_missed():
    slow = [{**line, "cpu_us": 500.0} if line["benchmark"] == "change" else line for line in LINES]
    (row,) = re.findall(r"\| one put, updates \| us .*", render(TEXT, slow))
    assert row.endswith("| 500 | **missed** |")


@pytest.mark.parametrize(
    ("name", "figure", "figures", "best", "slowest"),
    [
        ("change", "cpu_us", [3.0, 1.0, 2.0], 1.0, 3.0),
        ("scan", "keys_per_s", [3.0, 1.0, 2.0], 3.0, 1.0),
    ],
)
def test_of_several_runs_the_best_line_is_kept(name, figure, figures, best, slowest):
    runs = [[{"benchmark": name, "keys": 1, figure: value}] for value in figures]
    (kept,) = keep_best(runs)
    assert kept == {"benchmark": name, "keys": 1, figure: best, "runs": 3, "slowest_run": slowest}


def test_lines_of_different_things_are_kept_apart():
    lines = [{"benchmark": "scan", "keys": keys, "keys_per_s": 1.0} for keys in (1, 2)]
    assert [line["keys"] for line in keep_best([lines])] == [1, 2]
