"""The command line: versions, stores, and errors that leave as one sentence."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from lochan import __version__
from lochan.base.errors import Conflict
from lochan.cli.main import commands


@pytest.fixture
def runner():
    return CliRunner()


def test_version_is_told(runner):
    assert runner.invoke(commands, ["--version"]).output == f"lochan {__version__}\n"


@pytest.mark.slow
def test_python_m_lochan_is_the_same_runner():
    completed = subprocess.run(
        [sys.executable, "-m", "lochan", "--version"], capture_output=True, text=True, check=True
    )
    assert completed.stdout == f"lochan {__version__}\n"


@pytest.mark.slow
def test_asking_for_the_version_loads_no_database():
    code = "import sys, lochan.cli.main; print('rocksdict' in sys.modules, 'rich' in sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.split() == ["False", "False"]


def test_stores_are_listed_for_people_and_for_programs(runner):
    listed = runner.invoke(commands, ["stores", "--json"])
    assert listed.exit_code == 0
    schemes = {store["scheme"]: store["ready"] for store in json.loads(listed.output)}
    assert schemes["memory"]
    assert schemes["rocksdb"]
    shown = runner.invoke(commands, ["stores"])
    assert [line.split(":")[0] for line in shown.output.splitlines()] == sorted(schemes)


def test_our_errors_leave_as_a_sentence_and_a_hint_with_their_own_code(runner, monkeypatch):
    def broken() -> None:
        raise Conflict("another commit was faster")

    monkeypatch.setitem(commands.commands, "broken", click.Command("broken", callback=broken))
    result = runner.invoke(commands, ["broken"])
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "error: another commit was faster",
        "hint: read the current state, then try again",
    ]
    assert result.stdout == ""


@pytest.mark.parametrize("words", [["nonsense"], ["stores", "--nonsense"], ["demo", "surplus"]])
def test_a_wrong_call_leaves_with_code_2(runner, words):
    assert runner.invoke(commands, words).exit_code == 2


def test_the_demo_never_empties_a_directory_that_is_not_its_own(runner, tmp_path):
    kept = tmp_path / "precious"
    kept.write_text("data")
    result = runner.invoke(commands, ["demo", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert kept.read_text() == "data"
