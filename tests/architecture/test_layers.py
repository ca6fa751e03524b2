"""The import contracts hold, and each of them fails on a planted fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

# They start processes.
pytestmark = pytest.mark.slow


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_package_imports_from_its_own_layer_and_below():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_package_without_a_layer_fails_the_check(copy):
    (copy / "src/lochan/extra").mkdir()
    (copy / "src/lochan/extra/__init__.py").write_text('"""A package that no layer lists."""\n')
    result = lint_imports(copy)
    assert result.returncode != 0
    assert "extra" in result.stdout


@pytest.mark.parametrize(
    ("where", "line", "named"),
    [
        ("base/planted.py", "import lochan.kv.store", "lochan.kv"),
        ("kv/planted.py", "import lochan.index", "lochan.index"),
        ("kv/planted.py", "import time", "time"),
        ("index/planted.py", "import rocksdict", "rocksdict"),
        ("cli/planted.py", "import lochan.stores", "lochan.stores"),
        ("cli/planted.py", "import lochan.blocks", "lochan.blocks"),
        ("client/planted.py", "import pyarrow", "pyarrow"),
    ],
)
def test_a_planted_import_fails_the_check(copy, where, line, named):
    (copy / "src/lochan" / where).write_text(f'"""A planted fault."""\n\n{line}\n')
    result = lint_imports(copy)
    assert result.returncode != 0
    assert "planted" in result.stdout
    assert named in result.stdout
