"""`lochan check` and `lochan config`: the stored state of a repository, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from lochan.base.errors import Invalid, StoreLocked
from lochan.cli import exit_codes
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.output import make_console, moment
from lochan.kernel.check import Progress as CheckProgress
from lochan.kernel.check import Report


@click.command()
@click.option("--all", "everything", is_flag=True, help="Check all repositories of the store.")
@click.option(
    "--history",
    is_flag=True,
    help="Read the contents of every commit, not only those of present and former heads, and look "
    "for objects that nothing refers to.",
)
@catalog_command
def check(context: CommandContext, everything: bool, history: bool) -> None:
    """Read the stored data and report what is damaged; changes nothing.

    The command opens the store itself. It cannot read a RocksDB store that a server has open: stop
    the server first, or check a copy. It reads other stores while servers use them: name the store
    with --store.
    """
    from lochan.embedded import check_store

    if context.target.url is not None or context.target.store is None:
        raise StoreLocked(
            f"a check reads the store, not the server at {context.target.url}; name the store with "
            "--store, and stop the server first if the store is RocksDB"
        )
    names = None if everything else [context.target.repository]
    with make_console(errors=True).status("checking") as status:

        def show(progress: CheckProgress) -> None:
            status.update(f"checking: {_counts(progress)}")

        report = check_store(context.target.store, names, history=history, report_progress=show)
    verdict = "damaged" if report.damaged else "newer format" if report.newer else "whole"
    if context.printer.as_json:
        context.printer.line({"verdict": verdict, **msgspec.to_builtins(report)})
    else:
        _print_report(context, report, verdict)
    if report.damaged:
        raise SystemExit(exit_codes.DAMAGED)
    if report.newer:
        raise SystemExit(exit_codes.NEWER_FORMAT)


def _counts(progress: CheckProgress) -> str:
    """Returns what was read: the number of each kind."""
    counts: dict[str, int] = msgspec.structs.asdict(progress)
    words = {"nodes": "index nodes", "elements": "keys", "objects": "objects scanned"}
    read = [f"{count:,} {words.get(kind, kind)}" for kind, count in counts.items() if count]
    return ", ".join(read) or "nothing"


def _print_report(context: CommandContext, report: Report, verdict: str) -> None:
    if report.findings:
        context.printer.table(
            report.findings,
            ("severity", "repository", "row", "problem", "meaning"),
            lambda each: (
                each.severity.value,
                each.repository,
                each.where,
                each.what,
                each.meaning,
            ),
            lambda each: each,
            "",
        )
    for each in report.unjudged:
        number = "not counted" if each.rows is None else f"{each.rows:,}"
        context.printer.text(f"not judged: {each.kind}, {number} ({each.why})", "dim")
    findings = len(report.findings) + report.untold
    context.printer.text(f"{verdict}: read {_counts(report.progress)}; {findings:,} findings")


@click.group(cls=ListsByDefault)
def config() -> None:
    """Show a repository's description, and change its stored settings."""


@config.command("list")
@catalog_command
def show_config(context: CommandContext) -> None:
    """Show the repository's description and its stored settings."""
    description = context.catalog.config()
    facts: dict[str, Any] = {
        "repository": context.target.repository,
        "where": context.target.address(),
        "defaultBranch": description.default_branch,
        "created": moment(description.created_us),
        "emptyHash": description.empty_hash,
    }
    facts |= {str(setting.get("type")): setting for setting in context.catalog.settings.get()}
    if context.printer.as_json:
        context.printer.line(facts)
        return
    context.printer.facts(
        {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in facts.items()
        }
    )


@config.command("get")
@click.argument("kind", metavar="TYPE")
@catalog_command
def get_config(context: CommandContext, kind: str) -> None:
    """Show one stored setting, such as GARBAGE_COLLECTOR, as JSON."""
    for setting in context.catalog.settings.get([kind]):
        context.printer.line(setting)


@config.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@catalog_command
def set_config(context: CommandContext, file: Path) -> None:
    """Store the setting in FILE, JSON with its type; - is standard input."""
    with click.open_file(str(file), "rb") as stream:
        raw = stream.read()
    try:
        setting = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(f"{file} is not a JSON object: {error}") from None
    previous = context.catalog.settings.update(setting)
    context.printer.document({"previous": previous}, f"stored the setting {setting.get('type')}")
