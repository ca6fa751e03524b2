"""The cost of decisions on the page about performance is what was measured."""

from __future__ import annotations

import pytest

from benchmarks.access_page import MEASURED, keep, read_lines, render
from benchmarks.report import PAGE

TEXT = PAGE.read_text("utf-8")
LINES = read_lines(MEASURED)


def decided(kind, added_us):
    about = {"benchmark": "access", "kind": kind, "principals": 1_000, "keys": 10_000}
    figures = {"next_added_us": added_us, "first_added_us": 99.5, "policies": 100}
    rates = {"decisions_found": 0.9, "conditions_found": 0.8}
    found = {f"{name}_{rate}": rates[rate] for name in ("next", "first") for rate in rates}
    return about | figures | found


def test_the_page_is_what_the_report_makes_of_the_measured_lines():
    assert TEXT.count("<!-- access: figures -->") == 1
    assert render(TEXT, LINES) == TEXT


@pytest.mark.parametrize(
    ("kind", "added_us", "end"),
    [
        ("commit", 14.9, "| met |"),
        ("read", 15.1, "| **missed** |"),
        ("denied", 99.0, "|  |"),
    ],
)
def test_a_bar_that_is_missed_is_called_missed(kind, added_us, end):
    page = render(TEXT, [decided(kind, added_us)])
    (row,) = [line for line in page.splitlines() if f"| {added_us} | 90% of decisions" in line]
    assert row.endswith(end)


def test_a_newer_run_replaces_what_it_measured_and_leaves_the_rest():
    known = [decided("commit", 1.0), decided("read", 2.0)]
    drawn = {"benchmark": "access_drawn", "kind": "read"}
    kept = keep(known, [decided("read", 3.0), drawn])
    assert [(line["kind"], line["next_added_us"]) for line in kept] == [
        ("commit", 1.0),
        ("read", 3.0),
    ]
