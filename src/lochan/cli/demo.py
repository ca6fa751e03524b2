"""`lochan demo`: a server on the embedded store, a story through its HTTP client, left serving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from lochan.base.errors import Unavailable
from lochan.cli.printing import make_console

_STOP_TIMEOUT_S: Final = 30.0


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty directory for the data, kept.  [default: a temporary one]",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Where to serve.")
@click.option("--once", is_flag=True, help="End after the story instead of serving on.")
def demo(data: Path | None, port: int, once: bool) -> None:
    """Start a server, tell a short story on it, and leave it serving."""
    if data is not None and data.is_dir() and any(data.iterdir()):
        raise click.UsageError(f"{data} is not empty; name a new or empty directory")
    out = make_console()
    with TemporaryDirectory(prefix="lochan-demo-") as temporary:
        place = Path(temporary) if data is None else data
        place.mkdir(parents=True, exist_ok=True)
        with _server(place, port) as (process, url):
            from lochan.cli.story import Story

            out.print(f"[bold]Lochan[/bold] serves an empty catalog at {url}, kept in {place}")
            Story(url, out).tell()
            if once:
                out.print("\nThat was the story.")
                return
            out.print(
                "\nThat was the story. The server goes on until Ctrl-C; try in another shell:"
            )
            for command in (
                f"lochan log --url {url}",
                f"lochan content list --url {url} --on v1",
                f"curl {url}/api/v2/trees/main/history",
            ):
                out.print(f"   {command}", soft_wrap=True)
            with _ends_quietly():
                process.wait()


@contextmanager
def _server(place: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Runs `lochan serve` beside us until the block ends."""
    command = [sys.executable, "-m", "lochan", "serve", "--json"]
    command += ["--store", f"rocksdb:{place / 'store'}", "--port", str(port)]
    # A group of its own: Ctrl-C reaches us first, and we end it after our last word.
    process = subprocess.Popen(  # noqa: S603 - our own command, with no word of anybody else
        command, stdout=subprocess.PIPE, env=_environment(), start_new_session=True
    )
    try:
        yield process, _address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    import msgspec

    line = b"" if process.stdout is None else process.stdout.readline()
    try:
        told = msgspec.json.decode(line, type=dict[str, object])
        return str(told["url"])
    except (msgspec.DecodeError, KeyError):
        raise Unavailable("the server did not start; it says why above") from None


def _environment() -> dict[str, str]:
    """The environment without settings of ours: the demo is the same everywhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LOCHAN_")}


@contextmanager
def _ends_quietly() -> Iterator[None]:
    """Takes Ctrl-C for what it is here: the end."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nstopped")
