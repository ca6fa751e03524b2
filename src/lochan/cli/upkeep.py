"""`lochan check` and `lochan config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from lochan.base.errors import Invalid, StoreLocked
from lochan.cli import exits
from lochan.cli.command_context import CommandContext, errand
from lochan.cli.groups import ListsByDefault
from lochan.cli.printing import make_console, moment
from lochan.kernel.check import Progress as CheckProgress
from lochan.kernel.check import Report


@click.command()
@click.option("--all", "everything", is_flag=True, help="Check all repositories of the store.")
@click.option(
    "--history",
    is_flag=True,
    help="Read what every commit holds, not only where references are and were, and look for "
    "objects that nothing refers to.",
)
@errand
def check(job: CommandContext, everything: bool, history: bool) -> None:
    """Read what is stored and report what is damaged; changes nothing.

    Needs the store itself. A RocksDB store that a server has open cannot be read: stop the server
    first, or name a copy. A PostgreSQL store is checked while servers use it: name it with --store.
    """
    from lochan.embedded import check_store

    if job.target.url is not None or job.target.store is None:
        raise StoreLocked(
            f"a check reads the store itself, not the server at {job.target.url}; name the store "
            "with --store, and stop the server first if the store is RocksDB"
        )
    names = None if everything else [job.target.repository]
    with make_console(errors=True).status("checking") as status:

        def tell(progress: CheckProgress) -> None:
            status.update(f"checking: {_counted(progress)}")

        report = check_store(job.target.store, names, history=history, tell=tell)
    if job.printer.as_json:
        job.printer.line(_document(report))
    else:
        _print_report(job, report)
    if report.damaged:
        raise SystemExit(exits.DAMAGED)
    if report.newer:
        raise SystemExit(exits.NEWER_FORMAT)


def _document(report: Report) -> dict[str, Any]:
    return {"verdict": _verdict(report), **msgspec.to_builtins(report)}


def _verdict(report: Report) -> str:
    return "damaged" if report.damaged else "newer format" if report.newer else "whole"


def _counted(progress: CheckProgress) -> str:
    """Returns what was read, by kind."""
    counts: dict[str, int] = msgspec.structs.asdict(progress)
    words = {"nodes": "index nodes", "elements": "keys", "objects": "objects scanned"}
    read = [f"{count:,} {words.get(kind, kind)}" for kind, count in counts.items() if count]
    return ", ".join(read) or "nothing"


def _print_report(job: CommandContext, report: Report) -> None:
    if report.findings:
        job.printer.table(
            report.findings,
            ("severity", "repository", "row", "what is wrong", "what it means"),
            lambda one: (one.severity.value, one.repository, one.where, one.what, one.meaning),
            lambda one: one,
            "",
        )
    for one in report.unjudged:
        number = "not counted" if one.rows is None else f"{one.rows:,}"
        job.printer.say(f"not judged: {one.kind}, {number} ({one.why})", "dim")
    findings = len(report.findings) + report.untold
    job.printer.say(f"{_verdict(report)}: read {_counted(report.progress)}; {findings:,} findings")


@click.group(cls=ListsByDefault)
def config() -> None:
    """Show what a repository is, and change the settings that it keeps."""


@config.command("list")
@errand
def show_config(job: CommandContext) -> None:
    """Show what the repository is, and the settings that it keeps."""
    known = job.catalog.config()
    kept = job.catalog.settings.get()
    facts: dict[str, Any] = {
        "repository": job.target.repository,
        "where": job.target.url or job.target.shown_store(),
        "defaultBranch": known.default_branch,
        "created": moment(known.created_us),
        "emptyHash": known.empty_hash,
    }
    facts |= {str(one.get("type")): one for one in kept}
    if job.printer.as_json:
        job.printer.line(facts)
        return
    rows = [
        (name, value if isinstance(value, str) else _json(value)) for name, value in facts.items()
    ]
    job.printer.table(rows, ("", ""), lambda row: row, lambda row: row, "")


@config.command("get")
@click.argument("kind", metavar="TYPE")
@errand
def get_config(job: CommandContext, kind: str) -> None:
    """Show one kept setting, such as GARBAGE_COLLECTOR, as JSON."""
    for one in job.catalog.settings.get([kind]):
        click.echo(_json(one))


@config.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@errand
def set_config(job: CommandContext, file: Path) -> None:
    """Keep the setting that FILE holds as JSON, with its type; - reads it."""
    with click.open_file(str(file), "rb") as opened:
        raw = opened.read()
    try:
        wanted = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(f"{file} is not a JSON object: {error}") from None
    previous = job.catalog.settings.update(wanted)
    job.printer.document({"previous": previous}, f"kept {wanted.get('type')}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
