"""`lochan log`, `lochan diff` and `lochan reflog`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import click
from rich.text import Text

from lochan.cli.arguments import REFERENCE, SPEC, filter_option, key_prefix_option
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.keys import key_text
from lochan.cli.output import Cell, first_line, moment, plain, short
from lochan.model.commits import ContentKey, LogEntry, Put
from lochan.model.contents import Content, DeltaLakeTable, Namespace, OtherContent, type_of
from lochan.model.references import ReferenceMove
from lochan.model.results import DiffEntry

_Item = TypeVar("_Item")

_ROWS_DEFAULT: Final = 20
_MARK_STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}

_limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help=f"How many to print at most.  [default: {_ROWS_DEFAULT} in a table, all with --json]",
)


@click.command()
@click.argument("spec", type=SPEC, default="-")
@_limit
@filter_option
@click.option("--until", metavar="HASH", help="Stop after this commit.")
@click.option("-o", "--operations", is_flag=True, help="Also the keys that each commit changed.")
@catalog_command
def log(
    context: CommandContext,
    spec: str,
    limit: int | None,
    cel: str,
    until: str | None,
    operations: bool,
) -> None:
    """Show the commits of SPEC, the latest first."""
    from lochan.wire.commits import log_entry_v2

    entries = context.catalog.history.iterate(
        spec, limit_hash=until, filter=cel, fetch_all=operations
    )
    columns = ["hash", "committed (UTC)", "author", "message", *(["changes"] if operations else [])]
    _print(context, entries, limit, columns, _log_row, log_entry_v2, "commits")


@click.command()
@click.argument("left", type=SPEC, metavar="FROM")
@click.argument("right", type=SPEC, metavar="TO", default="-")
@_limit
@filter_option
@key_prefix_option
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if there are differences.")
@catalog_command
def diff(
    context: CommandContext,
    left: str,
    right: str,
    limit: int | None,
    cel: str,
    prefix: ContentKey | None,
    exit_code: bool,
) -> None:
    """Show which keys differ between FROM and TO (the default branch, if it is not given)."""
    from lochan.wire.listings import diff_out

    differences = context.catalog.history.iterate_diff(left, right, prefix=prefix, filter=cel)
    columns = ("", "key", "type", "before", "after")
    count = _print(context, differences, limit, columns, _diff_row, diff_out, "differences")
    if exit_code and count:
        raise SystemExit(1)


@click.command()
@click.argument("name", type=REFERENCE, default="-")
@_limit
@catalog_command
def reflog(context: CommandContext, name: str, limit: int | None) -> None:
    """Show where the branch or tag NAME pointed, the latest move first."""
    from lochan.wire.references import move_out

    moves = context.catalog.references.iterate_log(name)
    columns = ("when (UTC)", "what", "from", "to", "source", "who")
    _print(context, moves, limit, columns, _move_row, move_out, "moves")


def _print(
    context: CommandContext,
    items: Iterable[_Item],
    limit: int | None,
    columns: Sequence[str],
    row: Callable[[_Item], Sequence[Cell]],
    document: Callable[[_Item], Any],
    what: str,
) -> int:
    """Prints a listing; returns the number of items that were printed.

    A table has 20 rows unless a limit is given; JSON has all items unless a limit is given.
    """
    printer = context.printer
    iterator = iter(items)
    is_cut = limit is None and not printer.as_json
    printed = islice(iterator, _ROWS_DEFAULT if is_cut else limit)
    count = printer.table(printed, columns, row, document, f"no {what}")
    if is_cut and next(iterator, None) is not None:
        printer.text(f"… there are more {what}; -n NUMBER prints more", "dim")
    return count


def _log_row(entry: LogEntry) -> list[Cell]:
    meta = entry.meta
    row: list[Cell] = [
        short(meta.hash),
        moment(meta.commit_time_us),
        ", ".join(meta.authors) or meta.committer,
        first_line(meta.message),
    ]
    if entry.operations is not None:
        row.append(
            "\n".join(
                f"{'put' if isinstance(each, Put) else 'delete'} {key_text(each.key)}"
                for each in entry.operations
            )
        )
    return row


def _diff_row(entry: DiffEntry) -> list[Cell]:
    mark = "+" if entry.left is None else "-" if entry.right is None else "~"
    content = entry.right if entry.right is not None else entry.left
    kind = "" if content is None else type_of(content)
    return [
        Text(mark, _MARK_STYLES[mark]),
        Text(plain(key_text(entry.key)), _MARK_STYLES[mark]),
        kind,
        summary(entry.left),
        summary(entry.right),
    ]


def _move_row(move: ReferenceMove) -> list[Cell]:
    return [
        moment(move.when_us),
        move.kind,
        short(move.old),
        short(move.new),
        move.source.lstrip("@"),
        move.who,
    ]


def summary(content: Content | None) -> str:
    """Returns the part of a content that a table shows."""
    if content is None:
        return ""
    if isinstance(content, Namespace):
        return ", ".join(f"{name}={value}" for name, value in content.properties.items())
    if isinstance(content, DeltaLakeTable):
        return content.last_checkpoint or f"{len(content.metadata_location_history)} log files"
    if isinstance(content, OtherContent):
        return ", ".join(content.fields)
    return content.metadata_location if isinstance(content.metadata_location, str) else ""
