"""Makefile, README, locks and tracked files: what a new reader opens first."""

from __future__ import annotations

import os
import re

import pytest
from packaging.requirements import Requirement

from lochan import __version__
from tests.architecture.tree import (
    ROOT,
    extra_requirements,
    project_files,
    project_settings,
    requirement_names,
)

# Written in pieces, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:ro" r"ot|ho" r"me|Us" r"ers|wo" r"rk|op" r"t)/[\w.-]")
REGISTRY = re.compile(
    r"py" r"pi\.org|python" r"hosted|test\.py" r"pi|https?://\S+/sim" r"ple\b"
    r"|^\s*--(?:extra-)?index-" r"url|^\s*--find-" r"links|^\s*-[fi] \S",
    re.MULTILINE,
)  # fmt: skip


def makefile_targets(text: str) -> dict[str, str]:
    """Returns every target that is a command, with its help text ('' if it has none)."""
    found = {}
    for match in re.finditer(r"^([a-z][\w-]*):(?!=)([^\n]*)$", text, re.MULTILINE):
        found[match[1]] = match[2].partition("##")[2].strip()
    return found


def targets_before(text: str, name: str) -> list[str]:
    """Returns the targets that a target depends on."""
    found = re.search(rf"^{name}:([^#\n]*)", text, re.MULTILINE)
    assert found
    return found[1].split()


def unhashed(lock: str) -> list[str]:
    """Returns the requirements of a lock that lack an exact version or a hash."""
    logical = lock.replace("\\\n", " ").splitlines()
    requirements = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    return [
        line
        for line in requirements
        if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
    ]


def test_every_makefile_target_has_help_text():
    text = (ROOT / "Makefile").read_text()
    targets = makefile_targets(text)
    assert [name for name, text in targets.items() if not text] == []
    expected = {"help", "setup", "demo", "test", "lint", "types", "bench", "docs", "lock", "clean"}
    assert expected | {"unit", "test-deep"} <= set(targets)
    assert "unit" in targets_before(text, "test")


def test_every_makefile_target_is_phony():
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:(.*)$", text, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == set(makefile_targets(text))


def test_the_readme_shows_the_two_commands():
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in lines), command


def test_automation_runs_the_readmes_test_command():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


@pytest.mark.parametrize("name", ["run", "dev", "spark43"])
def test_locks_pin_every_version_by_hash(name):
    assert unhashed((ROOT / f"requirements/{name}.txt").read_text()) == []


def listed(name: str) -> set[str]:
    return requirement_names((ROOT / "requirements" / f"{name}.in").read_text().splitlines())


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def test_locked_run_requirements_are_those_the_package_declares():
    assert listed("run") == requirement_names(project_settings()["project"]["dependencies"])


def test_locked_spark_requirements_are_those_of_the_extra():
    declared = extra_requirements("spark")
    assert listed("spark") == requirement_names(declared)
    assert listed("spark") <= listed("spark43")
    ranges = {each.name: each.specifier for each in map(Requirement, declared)}
    for lock in map(locked, ("dev", "spark43")):
        assert [name for name, range_ in ranges.items() if lock[name] not in range_] == []


def test_the_matrix_differs_in_pyspark_only():
    usual, other = locked("dev"), locked("spark43")
    assert set(other) <= set(usual)
    assert {name for name in other if other[name] != usual[name]} == {"pyspark"}
    assert usual["pyspark"].startswith("4.1.")
    assert other["pyspark"].startswith("4.3.")


def test_no_file_names_a_machine_or_a_registry():
    found = []
    for path in project_files():
        text = path.read_text("utf-8", errors="replace")
        for pattern in (MACHINE_PATH, REGISTRY):
            found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in pattern.finditer(text)]
    assert found == []


def test_the_changelog_has_this_version_and_the_storage_format():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text
    assert "Storage format" in text


def test_planted_faults_are_found():
    assert makefile_targets("test: lint ## Run\nlint:\n\truff\nA := b\n") == {
        "test": "Run",
        "lint": "",
    }
    assert unhashed("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via b\n") == []
    assert unhashed("a==1\nb>=2 --hash=sha256:" + "0" * 64) != []
    for text in ["see /ro" + "ot/x", "'/ho" + "me/someone'", "open('/wo" + "rk/main')"]:
        assert MACHINE_PATH.search(text), text
    for text in ["https://py" + "pi.org/a", "--index-" + "url x", "--find-" + "links=/x"]:
        assert REGISTRY.search(text), text
    assert requirement_names(["# a", "-r b.in", "", "c[d]>=1,<2", "e; f == 'g'"]) == {"c[d]", "e"}
    inside = "/".join(("net", "work", "a and objects", "root", "b"))
    assert not MACHINE_PATH.search(inside)
