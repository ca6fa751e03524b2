"""Runs commands as a shell would, and reads what they print."""

from __future__ import annotations

from typing import Any

import msgspec
from click.testing import CliRunner, Result

from lochan.cli.main import commands


class Shell:
    """Runs commands with some options at their end."""

    def __init__(self, *always: str) -> None:
        self.always = always

    def run(self, *words: str, code: int = 0, stdin: str | bytes | None = None) -> Result:
        """Runs a command that must leave with the code."""
        result = CliRunner().invoke(commands, [*words, *self.always], input=stdin)
        details = f"{words}: {result.exit_code}\n{result.output}\n{result.exception!r}"
        assert result.exit_code == code, details
        return result

    def out(self, *words: str, code: int = 0, stdin: str | None = None) -> str:
        """Returns what a command prints for people."""
        return self.run(*words, code=code, stdin=stdin).stdout

    def lines(self, *words: str, code: int = 0) -> list[Any]:
        """Returns what a command prints for programs: one value for each line."""
        printed = self.run(*words, "--json", code=code).stdout
        return [msgspec.json.decode(line) for line in printed.splitlines()]

    def one(self, *words: str, code: int = 0) -> Any:
        """Returns the one document that a command prints."""
        (document,) = self.lines(*words, code=code)
        return document

    def head(self, name: str = "-") -> str:
        """Returns the hash of a branch."""
        return str(self.one("branch", "show", name)["hash"])

    def put(self, key: str, location: str, branch: str = "-", *more: str) -> str:
        """Puts a table; returns the hash of the commit."""
        words = ("content", "put", key, "--location", location, "-b", branch, *more)
        return str(self.one(*words)["targetBranch"]["hash"])

    def location(self, key: str, spec: str = "-") -> str:
        """Returns where the metadata of a table is."""
        return str(self.one("content", "get", key, "--on", spec)["metadataLocation"])
