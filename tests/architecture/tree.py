"""The project's own files, read once: what the house tests look at."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file: where it is (from the project's root, with slashes) and what it says."""

    where: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.text)


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file under the named folders of the project."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")))
    return tuple(found)


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is or would be tracked; without git, every file outside made folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
        return tuple(path for name in names if (path := ROOT / name).is_file())
    made = {".venv", ".venv-compat", ".venv-spark43", ".git", ".lochan", "build", "dist"}
    made |= {
        "__pycache__",
        ".hypothesis",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".import_linter_cache",
    }
    return tuple(
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not made & set(path.relative_to(ROOT).parts)
    )


@cache
def project_settings() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def extra_requirements(extra: str) -> list[str]:
    """What an extra asks for, with what the extras that it names ask for."""
    found = []
    for line in project_settings()["project"]["optional-dependencies"][extra]:
        inner = re.fullmatch(r"lochan\[([\w-]+)\]", line)
        found += extra_requirements(inner[1]) if inner else [line]
    return found


def requirement_names(lines: Iterable[str]) -> set[str]:
    """The packages of a list of requirements, with the extras that are asked of them."""
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "-"))]
    return {re.split(r"[<>=!~; ]", line)[0] for line in wanted}


def contract(name: str) -> dict[str, Any]:
    """One import contract by its id."""
    contracts = project_settings()["tool"]["importlinter"]["contracts"]
    return next(found for found in contracts if found["id"] == name)


def rooms_from(room: str) -> list[str]:
    """The rooms on the floor of the named room and on all floors below it."""
    floors = [
        [part.strip(" ()") for part in floor.split("|")] for floor in contract("floors")["layers"]
    ]
    start = next(number for number, floor in enumerate(floors) if room in floor)
    return [name for floor in floors[start:] for name in floor]
