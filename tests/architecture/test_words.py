"""Source, docs and help use the terms of the field and of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from lochan.cli.main import commands
from tests.architecture import words
from tests.architecture.tree import ROOT, project_files

FOLDERS = ("src/", "docs/")
FILES = ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")


def texts() -> Iterator[tuple[str, str]]:
    """Yields path and text of every file in the scope of the check."""
    for path in project_files():
        where = path.relative_to(ROOT).as_posix()
        if where in FILES or (where.startswith(FOLDERS) and path.suffix in {".py", ".md"}):
            yield where, path.read_text("utf-8")


def help_texts(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yields name and help of a command and of all commands below it."""
    waiting = [(command, name)]
    while waiting:
        command, name = waiting.pop()
        context = click.Context(command, info_name=name)
        yield name, command.get_help(context)
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                inner = command.get_command(context, part)
                assert inner is not None
                waiting.append((inner, f"{name} {part}"))


def test_no_metaphor_is_a_term_in_source_and_docs():
    found = [line for where, text in texts() for line in words.old_words(where, text)]
    assert found == []


def test_no_metaphor_is_a_term_in_the_help():
    found = [
        line
        for name, text in help_texts(commands, "lochan")
        for line in words.old_words(name, text)
    ]
    assert found == []


def test_every_command_has_its_help_checked():
    names = {name for name, _ in help_texts(commands, "lochan")}
    assert {"lochan", "lochan serve", "lochan branch create", "lochan merge"} <= names


def test_every_allowed_place_has_a_reason_and_is_needed():
    for allowed in words.ALLOWED:
        assert len(allowed.reason) > 20
        assert any(
            re.search(allowed.pattern, text, re.IGNORECASE)
            for where, text in texts()
            if where.startswith(allowed.where)
        ), f"{allowed.pattern} is not needed any more"


@pytest.mark.parametrize(
    "line",
    [
        "# The only door of the house.",
        "A Room imports from below.",
        "self._told = reply",
        "class ErrandBase:",
        "def tell_all(): ...",
        '"""Nobody has said so."""',
        "    patience: RetryPolicy",
    ],
)
def test_a_planted_word_is_found(line):
    assert words.old_words("src/lochan/base/planted.py", line)


@pytest.mark.parametrize(
    "line",
    [
        "Git for the lakehouse has a history.",
        "The list leaves room for a level between the two.",
        "position = file.tell()",
        "roommate, indoors, doorway, storyboard, intelligent",
    ],
)
def test_words_that_are_right_pass(line):
    assert words.old_words("src/lochan/base/planted.py", line) == []


def test_names_of_tests_are_allowed_in_docs_only():
    line = "| it holds | `tests/kernel/test_lanes.py::test_a_reader_is_told` |"
    assert words.old_words("docs/guarantees.md", line) == []
    assert words.old_words("src/lochan/base/planted.py", line)
