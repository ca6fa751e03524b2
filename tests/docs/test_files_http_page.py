"""The rows of files over HTTP on the page about performance are what was measured."""

from __future__ import annotations

from benchmarks.http_files.page import MEASURED, keep, read_lines, render
from benchmarks.report import PAGE

TEXT = PAGE.read_text("utf-8")
LINES = read_lines(MEASURED)


def test_the_page_is_what_the_report_makes_of_the_measured_lines():
    assert TEXT.count("<!-- files-http: table -->") == 1
    assert render(TEXT, LINES) == TEXT


def test_a_newer_line_replaces_that_of_its_row_only():
    row = {"benchmark": "files_http", "api": "files", "workload": "upload-one", "clients": 1}
    old = row | {"ops_s": 1}
    other = old | {"workload": "log-100"}
    assert keep([other, old], [old | {"ops_s": 2}]) == [old | {"ops_s": 2}, other]
