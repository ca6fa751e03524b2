"""The project's own files, read once, for the tests that read source and docs."""

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
    """One Python file: its path from the project's root, with slashes, and its text."""

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
    """Returns every Python file under the named folders of the project."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")))
    return tuple(found)


@cache
def project_files() -> tuple[Path, ...]:
    """Returns every file that is or would be tracked; without git, all that are not generated."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
        return tuple(path for name in names if (path := ROOT / name).is_file())
    generated = {".venv", ".venv-compat", ".venv-spark43", ".git", ".lochan", "build", "dist"}
    generated |= {
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
        if path.is_file() and not generated & set(path.relative_to(ROOT).parts)
    )


@cache
def project_settings() -> dict[str, Any]:
    """Returns the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def extra_requirements(extra: str) -> list[str]:
    """Returns the requirements of an extra, with those of the extras that it names."""
    found = []
    for line in project_settings()["project"]["optional-dependencies"][extra]:
        inner = re.fullmatch(r"lochan\[([\w-]+)\]", line)
        found += extra_requirements(inner[1]) if inner else [line]
    return found


def requirement_names(lines: Iterable[str]) -> set[str]:
    """Returns the package names in a list of requirements, with their extras."""
    stated = [line.strip() for line in lines if line.strip() and not line.startswith(("#", "-"))]
    return {re.split(r"[<>=!~; ]", line)[0] for line in stated}


def contract(name: str) -> dict[str, Any]:
    """Returns one import contract by its id."""
    contracts = project_settings()["tool"]["importlinter"]["contracts"]
    return next(found for found in contracts if found["id"] == name)


def layers_from(package: str) -> list[str]:
    """Returns the packages on the layer of the named package and on all layers below it."""
    layers = [
        [part.strip(" ()") for part in layer.split("|")] for layer in contract("layers")["layers"]
    ]
    start = next(number for number, layer in enumerate(layers) if package in layer)
    return [name for layer in layers[start:] for name in layer]


def is_built(package: str) -> bool:
    """Returns whether a package of the list of layers exists; others are planned."""
    home = ROOT / "src/lochan"
    return (home / package).is_dir() or (home / f"{package}.py").is_file()
