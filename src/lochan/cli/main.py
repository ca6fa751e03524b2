"""The front door `lochan`: its commands, its version, and how errors leave the house.

Rooms are imported inside the commands, so that `lochan --version` does not load a database.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, Any

import click

from lochan import __version__
from lochan.base.errors import LochanError, NotFound

DEMO_DIRECTORY = Path(".lochan/demo")


class _Failed(click.ClickException):
    """An error of our tree on its way to the terminal: one sentence, exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the sentence to standard error."""
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class _Doors(click.Group):
    """A group whose commands may raise any LochanError."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command and turns our errors into a sentence."""
        try:
            return super().invoke(ctx)
        except LochanError as error:
            raise _Failed(error.message) from error


@click.group(cls=_Doors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lochan", message="%(prog)s %(version)s")
def commands() -> None:
    """Lochan: Git for the lakehouse."""


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def stores(as_json: bool) -> None:
    """List the kinds of store that are installed."""
    from lochan.cli.installed import find_installed_stores

    found = find_installed_stores()
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(found).decode())
        return
    if not found:
        raise NotFound("no store is installed; reinstall lochan")
    width = max(len(store.scheme) for store in found)
    for store in found:
        click.echo(f"{store.scheme + ':':<{width + 1}}  {store.state}  ({store.package})")


@commands.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"A new or empty directory for the data.  [default: {DEMO_DIRECTORY}, emptied first]",
)
def demo(data: Path | None) -> None:
    """Tell a short story on the embedded store."""
    if data is None:
        data = DEMO_DIRECTORY
        # Only the directory that is ours by name is ever emptied.
        shutil.rmtree(data, ignore_errors=True)
    elif data.is_dir() and any(data.iterdir()):
        raise click.UsageError(f"{data} is not empty; name a new or empty directory")
    from rich.console import Console

    from lochan.cli.demo import tell

    data.mkdir(parents=True, exist_ok=True)
    tell(data, Console(highlight=False))


def main() -> None:
    """Runs the command line; never returns."""
    commands(prog_name="lochan")
