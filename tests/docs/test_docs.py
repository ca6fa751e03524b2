"""Every test, decision, scenario and link that the docs name exists."""

from __future__ import annotations

import re

import pytest

from tests.architecture.tree import ROOT
from tests.docs.references import (
    answer_problems,
    broken_links,
    missing_adrs,
    missing_files,
    missing_tests,
    trace_rows,
)
from tests.sim.catalog_scenarios import SCENARIOS as CATALOG
from tests.sim.graft_scenarios import LONG_OF_CATALOG, LONG_OF_KERNEL
from tests.sim.kernel_scenarios import SCENARIOS
from tests.sim.mixed_scenarios import OF_CATALOG, OF_KERNEL
from tests.sim.test_catalog_requests import SCENARIOS as REQUESTS
from tests.sim.test_catalog_resending import SCENARIOS as RESENDING
from tests.sim.test_catalog_sweeps import SCENARIO as SWEEPS
from tests.sim.test_kernel_moves import SCENARIOS as MOVES

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_named_test_decision_and_link_exists(page):
    text = page.read_text("utf-8")
    assert missing_tests(text) == []
    assert missing_adrs(text) == []
    assert broken_links(page, text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_named_file_exists(page):
    # Decisions are kept as they were, also if a file was renamed later.
    if page.parent.name != "adr":
        assert missing_files(page.read_text("utf-8")) == []


def test_every_row_of_the_trace_has_a_known_answer():
    rows = trace_rows((ROOT / "docs/internals/seeds.md").read_text("utf-8"))
    wrong = {row.id: problems for row in rows if (problems := answer_problems(row.answer))}
    assert wrong == {}


def test_rows_of_the_trace_are_unique_and_unbroken():
    rows = trace_rows((ROOT / "docs/internals/seeds.md").read_text("utf-8"))
    ids = [row.id for row in rows]
    for seed in ("000", "001", "002", "003", "004"):
        numbers = [int(name[4:]) for name in ids if name.startswith(seed)]
        assert numbers == list(range(1, len(numbers) + 1)), seed
        assert len(numbers) >= 20
    assert [row.id for row in rows if not row.requirement] == []


def test_no_row_of_the_trace_is_overlooked():
    text = (ROOT / "docs/internals/seeds.md").read_text("utf-8")
    assert len(trace_rows(text)) == len(re.findall(r"^\| \d", text, re.MULTILINE))


def test_every_guarantee_names_its_test():
    lines = (ROOT / "docs/guarantees.md").read_text("utf-8").splitlines()
    promises = [line for line in lines if line.startswith("| ") and "| promise |" not in line]
    assert len(promises) >= 50
    assert [line for line in promises if "::test" not in line] == []


@pytest.mark.parametrize(
    ("section", "scenarios"),
    [
        (
            "The kernel",
            {scenario.name for scenario in [*SCENARIOS, *OF_KERNEL, *LONG_OF_KERNEL]}
            | MOVES.keys(),
        ),
        (
            "The catalog",
            {
                scenario.name
                for scenario in [
                    *(*CATALOG, *REQUESTS, *OF_CATALOG, SWEEPS, *RESENDING.values()),
                    *LONG_OF_CATALOG,
                ]
            },
        ),
    ],
)
def test_the_guarantees_name_every_scenario_and_no_other(section, scenarios):
    text = (ROOT / "docs/guarantees.md").read_text("utf-8")
    part = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    named = {name for _, names, _ in rows for name in names.split("; ")}
    assert named - {"all", "-"} == scenarios


def test_every_bug_of_the_track_record_names_its_regression_test_and_its_fix():
    lines = (ROOT / "docs/internals/track-record.md").read_text("utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert len(rows) >= 10
    for row in rows:
        assert len(row) == 6, row[0]
        _, introduced, found_by, schedule, reproduction, fixed = row
        assert introduced, row[0]
        assert found_by, row[0]
        assert schedule, row[0]
        assert "::test_" in reproduction, row[0]
        assert re.match(r"[0-9a-f]{7}\b", fixed), row[0]


def test_every_decision_is_listed_and_has_its_four_parts():
    listed = (ROOT / "docs/internals/adr/README.md").read_text("utf-8")
    for page in sorted((ROOT / "docs/internals/adr").glob("[0-9]*.md")):
        text = page.read_text("utf-8")
        assert f"({page.name})" in listed
        assert text.startswith(f"# ADR-{page.name[:4]} ")
        for part in ("Context", "Decision", "Refused", "Consequences"):
            assert f"\n## {part}\n" in text, f"{page.name} lacks {part}"


def test_planted_faults_are_found():
    here = "tests/docs/test_docs.py"
    good = f"`{here}::test_planted_faults_are_found`"
    assert answer_problems(f"{good}, ADR-0001, issue 4") == []
    assert answer_problems("open") == []
    for bad in [
        f"`{here}::test_that_does_not_exist`",
        "`tests/docs/test_nowhere.py::test_a`",
        "ADR-9999",
        "done",
        "issue",
        "",
        f"{here}::test_planted_faults_are_found",
    ]:
        assert len(answer_problems(bad)) == 1, bad
    assert missing_files("`base/ids.py` `docs/references.py` `no/where.py`") == ["no/where.py"]
    assert broken_links(ROOT / "README.md", "[a](nowhere.md) [b](README.md)") == ["nowhere.md"]
    assert len(trace_rows("| 000-01 | a | open |\n| 000-1 | b | open |\n|---|---|---|")) == 1
