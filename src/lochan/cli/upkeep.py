"""`lochan check` and `lochan config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from lochan.base.errors import Invalid, StoreLocked
from lochan.cli import exits
from lochan.cli.errand import Errand, errand
from lochan.cli.groups import ListsByDefault
from lochan.cli.printing import make_console, moment
from lochan.kernel.check import Progress as CheckProgress


@click.command()
@errand
def check(job: Errand) -> None:
    """Read everything that is stored and tell what is damaged; repairs nothing.

    Needs the store itself: stop the server first, or name a copy with --store.
    """
    from lochan.embedded import Embedded

    catalog = job.catalog
    if not isinstance(catalog, Embedded):
        raise StoreLocked(
            f"a check reads the store itself, and the server at {catalog.url} has it; stop the "
            "server, then check with --store"
        )
    with make_console(errors=True).status("checking") as status:

        def tell(progress: CheckProgress) -> None:
            status.update(
                f"checking: {progress.references:,} references, {progress.commits:,} commits"
            )

        report = catalog.check(tell)
    read = report.progress
    columns = ("severity", "where", "what")
    if job.printer.as_json:
        job.printer.line(report)
    else:
        if report.findings:
            job.printer.table(
                report.findings,
                columns,
                lambda one: (one.severity.value, one.where, one.what),
                lambda one: one,
                "",
            )
        verdict = "damaged" if report.damaged else "whole"
        job.printer.say(
            f"{verdict}: {read.references:,} references, {read.commits:,} commits and "
            f"{read.elements:,} keys were read; {len(report.findings) + report.untold:,} findings"
        )
    if report.damaged:
        raise SystemExit(exits.DAMAGED)


@click.group(cls=ListsByDefault)
def config() -> None:
    """Show what a repository is, and change the settings that it keeps."""


@config.command("list")
@errand
def show_config(job: Errand) -> None:
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
def get_config(job: Errand, kind: str) -> None:
    """Show one kept setting, such as GARBAGE_COLLECTOR, as JSON."""
    for one in job.catalog.settings.get([kind]):
        click.echo(_json(one))


@config.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@errand
def set_config(job: Errand, file: Path) -> None:
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
