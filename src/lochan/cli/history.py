"""`lochan log`, `lochan diff` and `lochan reflog`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

import click
from rich.text import Text

from lochan.cli.command_context import CommandContext, errand
from lochan.cli.keys import KEY, key_text
from lochan.cli.printing import Cell, first_line, moment, plain, short
from lochan.cli.specs import REFERENCE, SPEC
from lochan.model.commits import ContentKey, LogEntry, Put
from lochan.model.contents import Content, DeltaLakeTable, Namespace, OtherContent, type_of
from lochan.model.references import ReferenceMove
from lochan.model.results import DiffEntry

_Item = TypeVar("_Item")

_SHOWN: Final = 20
_MARKS: Final = {"+": "green", "-": "red", "~": "yellow"}

_limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help=f"At most so many.  [default: {_SHOWN} in a table, all with --json]",
)
_filter = click.option("--filter", "wanted", default="", metavar="CEL", help="Only those it keeps.")


@click.command()
@click.argument("spec", type=SPEC, default="-")
@_limit
@_filter
@click.option("--until", metavar="HASH", help="Stop after this commit.")
@click.option("-o", "--operations", is_flag=True, help="Also what each commit changed.")
@errand
def log(
    job: CommandContext,
    spec: str,
    limit: int | None,
    wanted: str,
    until: str | None,
    operations: bool,
) -> None:
    """Show the commits of SPEC, the latest first."""
    from lochan.wire.commits import log_entry_v2

    found = job.catalog.history.iterate(spec, limit_hash=until, filter=wanted, fetch_all=operations)
    columns = ["hash", "committed (UTC)", "author", "message", *(["changes"] if operations else [])]
    shown = _Some(found, limit, job)
    job.printer.table(shown, columns, _log_row, log_entry_v2, "no commits")
    shown.say_more("commits")


@click.command()
@click.argument("left", type=SPEC, metavar="FROM")
@click.argument("right", type=SPEC, metavar="TO", default="-")
@_limit
@_filter
@click.option("--prefix", type=KEY, help="Only this key and those below it.")
@click.option("--exit-code", "tell", is_flag=True, help="Leave with 1 if there are differences.")
@errand
def diff(
    job: CommandContext,
    left: str,
    right: str,
    limit: int | None,
    wanted: str,
    prefix: ContentKey | None,
    tell: bool,
) -> None:
    """Show which keys differ between FROM and TO (the default branch, if it is not given)."""
    from lochan.wire.listings import diff_out

    found = job.catalog.history.iterate_diff(left, right, prefix=prefix, filter=wanted)
    shown = _Some(found, limit, job)
    columns = ("", "key", "type", "before", "after")
    count = job.printer.table(shown, columns, _diff_row, diff_out, "no differences")
    shown.say_more("differences")
    if tell and count:
        raise SystemExit(1)


@click.command()
@click.argument("name", type=REFERENCE, default="-")
@_limit
@errand
def reflog(job: CommandContext, name: str, limit: int | None) -> None:
    """Show everywhere the branch or tag NAME has been, the latest first."""
    from lochan.wire.references import move_out

    shown = _Some(job.catalog.references.iterate_log(name), limit, job)
    columns = ("when (UTC)", "what", "from", "to", "source", "who")
    job.printer.table(shown, columns, _move_row, move_out, "nothing happened to it yet")
    shown.say_more("moves")


class _Some:
    """The first of many, for a table; programs get all unless they set a limit."""

    def __init__(self, items: Iterable[_Item], limit: int | None, job: CommandContext) -> None:
        self._items: Iterator[Any] = iter(items)
        self._limit = limit or (None if job.printer.as_json else _SHOWN)
        self._cut = limit is None and not job.printer.as_json
        self._job = job

    def __iter__(self) -> Iterator[Any]:
        return islice(self._items, self._limit)

    def say_more(self, what: str) -> None:
        """Says so if there are more than were shown without anybody asking for fewer."""
        if self._cut and next(self._items, None) is not None:
            self._job.printer.say(f"… and older {what}; -n shows more", "dim")


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
                f"{'put' if isinstance(one, Put) else 'delete'} {key_text(one.key)}"
                for one in entry.operations
            )
        )
    return row


def _diff_row(entry: DiffEntry) -> list[Cell]:
    mark = "+" if entry.left is None else "-" if entry.right is None else "~"
    content = entry.right if entry.right is not None else entry.left
    kind = "" if content is None else type_of(content)
    return [
        Text(mark, _MARKS[mark]),
        Text(plain(key_text(entry.key)), _MARKS[mark]),
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
    """Returns what is worth seeing of a content in a table."""
    if content is None:
        return ""
    if isinstance(content, Namespace):
        return ", ".join(f"{name}={value}" for name, value in content.properties.items())
    if isinstance(content, DeltaLakeTable):
        return content.last_checkpoint or f"{len(content.metadata_location_history)} log files"
    if isinstance(content, OtherContent):
        return ", ".join(content.fields)
    return content.metadata_location if isinstance(content.metadata_location, str) else ""
