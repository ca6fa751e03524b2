"""Reads what the docs refer to: rows of tables, named tests, ADRs and links."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.tree import ROOT

TEST_NAME = re.compile(r"`((?:tests|src/lochan/testing)/[\w/.-]+\.py)::([\w:]+)`")
ADR_NAME = re.compile(r"\bADR-(\d{4})\b")
ISSUE = re.compile(r"issue \d+\Z")


@dataclass(frozen=True)
class Row:
    """One row of the trace."""

    id: str
    requirement: str
    answer: str


def trace_rows(text: str) -> list[Row]:
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"\d{3}-\d{2}", cells[0]):
            found.append(Row(*cells))
    return found


def answer_problems(answer: str) -> list[str]:
    """Returns what is wrong with an answer; each part must have a known form and exist."""
    parts = [part.strip() for part in answer.split(",")]
    found = []
    for part in parts:
        if TEST_NAME.fullmatch(part):
            found += missing_tests(part)
        elif ADR_NAME.fullmatch(part):
            found += missing_adrs(part)
        elif part != "open" and not ISSUE.fullmatch(part):
            found.append(f"not an answer: {part!r}")
    return found


def missing_tests(text: str) -> list[str]:
    found = []
    for where, name in TEST_NAME.findall(text):
        path = ROOT / where
        if not path.is_file():
            found.append(f"no file {where}")
        elif name not in _tests_in(path):
            found.append(f"no test {name} in {where}")
    return found


def missing_adrs(text: str) -> list[str]:
    return [
        f"no ADR-{number}"
        for number in ADR_NAME.findall(text)
        if not list((ROOT / "docs/internals/adr").glob(f"{number}-*.md"))
    ]


def broken_links(where: Path, text: str) -> list[str]:
    """Returns the relative links whose target does not exist."""
    links = re.findall(r"\]\(([^)#\s]+)", text)
    return [link for link in links if ":" not in link and not (where.parent / link).exists()]


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """Returns names of test functions and methods, methods also as Class::method."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            # A state machine of Hypothesis is a test by assignment of its TestCase.
            names.add(node.name)
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    names |= {inner.name, f"{node.name}::{inner.name}"}
        elif isinstance(node, ast.Assign):
            names |= {name.id for name in node.targets if isinstance(name, ast.Name)}
    return frozenset(name for name in names if name.split("::")[-1].lower().startswith("test"))
