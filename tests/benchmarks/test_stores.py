"""The measurement of stores runs on the smallest one, and its page is written from its lines."""

from __future__ import annotations

import json

import pytest

from benchmarks import stores_page
from benchmarks.__main__ import main
from tests.architecture.tree import ROOT


@pytest.mark.slow
def test_commits_and_calls_are_counted_on_our_server(capsys):
    short = ["--seconds", "0.3", "--warm", "0.1", "--clients", "1", "16"]
    main(["stores", "--stores", "memory", "--servers", "lochan", *short])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    measured = [line for line in lines if line["benchmark"] == "stores"]
    assert [(line["workload"], line["clients"]) for line in measured] == [
        ("commit-one", 1),
        ("commit-one", 16),
        ("commit-own", 1),
        ("commit-own", 16),
    ]
    for line in measured:
        assert line["ops_s"] > 0
        assert not line["errors"]
        assert line["calls_per_commit"] > 0
    assert stores_page.keep([], measured) == measured
    page = stores_page.render("<!-- stores: figures -->\n<!-- end -->", measured)
    assert page.count("| `memory` |") == 4


def test_the_page_states_what_was_measured() -> None:
    page = (ROOT / "docs/performance.md").read_text("utf-8")
    assert stores_page.render(page, stores_page.read_lines(stores_page.MEASURED)) == page
