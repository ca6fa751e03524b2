"""The output of `lochan demo`: headings, lines and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lochan.cli.output import Cell, add_row, make_table, plain


class DemoOutput:
    """Prints the requests of the demo and their results."""

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
