"""The output of commands: tables for people, JSON for programs.

Text from users or servers is printed as text: control characters are escaped, and markup has no
effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Item = TypeVar("_Item")

Cell = str | int | None | Text

# Output to a file or a pipe is never cut to the width of a terminal.
_UNCUT_COLUMNS: Final = 10_000
_SHORT_HASH: Final = 12


class Printer:
    """Prints the result of one command, as text or as JSON."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = make_console()

    def text(self, text: str, style: str = "") -> None:
        """Prints a line of text; with `--json`, nothing."""
        if not self.as_json:
            self.console.print(Text(plain(text), style), soft_wrap=True)

    def document(self, value: Any, text: str) -> None:
        """Prints one result: a line of text, or one JSON document."""
        if self.as_json:
            self.line(value)
        else:
            self.text(text)

    def line(self, value: Any) -> None:
        """Prints a value as one line of JSON."""
        click.echo(msgspec.json.encode(value))

    def table(
        self,
        items: Iterable[_Item],
        columns: Sequence[str],
        row: Callable[[_Item], Sequence[Cell]],
        document: Callable[[_Item], Any],
        empty: str,
    ) -> int:
        """Prints each item as a row or as a line of JSON; returns the number of items."""
        if self.as_json:
            printed = 0
            for item in items:
                self.line(document(item))
                printed += 1
            return printed
        table = make_table(columns)
        for item in items:
            add_row(table, row(item))
        if table.row_count:
            self._print(table)
        else:
            self.text(empty, "dim")
        return table.row_count

    def facts(self, facts: Mapping[str, Cell]) -> None:
        """Prints names with their values, one line each."""
        self.table(facts.items(), ("", ""), lambda fact: fact, lambda fact: fact, "")

    def _print(self, table: Table) -> None:
        if self.console.is_terminal:
            self.console.print(table)
            return
        with self.console.capture() as capture:
            self.console.print(table)
        for line in capture.get().splitlines():
            click.echo(line.rstrip())


class DemoOutput:
    """Prints the requests of `lochan demo` and their results: headings, lines and tables."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def heading(self, title: str) -> None:
        """Prints the title of a step."""
        self.console.print(Text(f"\n{title}", "bold"))

    def line(self, text: str) -> None:
        """Prints a line of text."""
        self.console.print(Text(plain(f"   {text}")), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Prints an indented table."""
        table = make_table(columns)
        for row in rows:
            add_row(table, row)
        grid = Table.grid(padding=(0, 0, 0, 6))
        grid.add_row("", table)
        self.console.print(grid)


def make_console(*, errors: bool = False) -> Console:
    """Returns a console; it cuts lines only on a terminal."""
    stream = sys.stderr if errors else sys.stdout
    width = None if stream.isatty() else _UNCUT_COLUMNS
    return Console(stderr=errors, highlight=False, emoji=False, width=width)


def make_table(columns: Sequence[str]) -> Table:
    """Returns an empty table without borders."""
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
        show_header=any(columns),
    )
    for title in columns:
        table.add_column(title, overflow="fold")
    return table


def plain(text: str) -> str:
    """Escapes control characters, so that no text can control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def first_line(text: str) -> str:
    """Returns the first line of a message."""
    return text.partition("\n")[0]


def short(digits: str | None) -> str:
    """Returns the first characters of a hash, for people."""
    return "" if digits is None else digits[:_SHORT_HASH]


def moment(time_us: int | None) -> str:
    """Returns a time in UTC, to the second."""
    if time_us is None:
        return ""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def add_row(table: Table, row: Sequence[Cell]) -> None:
    """Adds a row of escaped texts to a table."""
    table.add_row(
        *(
            cell if isinstance(cell, Text) else Text("" if cell is None else plain(str(cell)))
            for cell in row
        )
    )
