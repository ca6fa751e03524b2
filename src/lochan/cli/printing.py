"""What commands print: tables for people, JSON for programs.

Text that came from users or servers is shown as text: control characters are spelled out, and
nothing in it is taken for markup.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_Item = TypeVar("_Item")

Cell = str | int | None | Text

# What is written to a file or a pipe is never cut to the width of a terminal.
_UNCUT_COLUMNS: Final = 10_000
_SHORT_HASH: Final = 12


class Printer:
    """Prints the outcome of one command, in one of two ways."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = make_console()

    def say(self, text: str, style: str = "") -> None:
        """Says a sentence to people; programs do not see it."""
        if not self.as_json:
            self.console.print(Text(plain(text), style), soft_wrap=True)

    def document(self, value: Any, sentence: str) -> None:
        """Prints one outcome: a sentence, or one JSON document."""
        if self.as_json:
            self.line(value)
        else:
            self.say(sentence)

    def line(self, value: Any) -> None:
        """Prints a value as one line of JSON."""
        click.echo(msgspec.json.encode(value))

    def table(
        self,
        items: Iterable[_Item],
        columns: Sequence[str],
        row: Callable[[_Item], Sequence[Cell]],
        document: Callable[[_Item], Any],
        nothing: str,
    ) -> int:
        """Prints items, one row or one line of JSON each; returns how many there were."""
        if self.as_json:
            printed = 0
            for item in items:
                self.line(document(item))
                printed += 1
            return printed
        table = make_table(columns)
        for item in items:
            table.add_row(*(_cell(value) for value in row(item)))
        if table.row_count:
            self._print(table)
        else:
            self.say(nothing, "dim")
        return table.row_count

    def _print(self, table: Table) -> None:
        if self.console.is_terminal:
            self.console.print(table)
            return
        with self.console.capture() as capture:
            self.console.print(table)
        for line in capture.get().splitlines():
            click.echo(line.rstrip())


def make_console(*, errors: bool = False) -> Console:
    """Returns a console that cuts nothing unless a person looks at it."""
    stream = sys.stderr if errors else sys.stdout
    width = None if stream.isatty() else _UNCUT_COLUMNS
    return Console(stderr=errors, highlight=False, emoji=False, width=width)


def make_table(columns: Sequence[str]) -> Table:
    """Returns an empty table in our style."""
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
    """Spells control characters out, so that no text can steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text
    )


def first_line(text: str) -> str:
    """Returns the first line of a message."""
    return text.partition("\n")[0]


def short(digits: str | None) -> str:
    """Returns the beginning of a hash, enough for eyes."""
    return "" if digits is None else digits[:_SHORT_HASH]


def moment(time_us: int | None) -> str:
    """Returns a time in UTC, to the second."""
    if time_us is None:
        return ""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text("" if value is None else plain(str(value)))
