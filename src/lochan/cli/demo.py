"""`lochan demo`: a server on the embedded store, a story through its HTTP client, left serving.

The server has the main thread, because signals end it; the story is told from another, over the
same socket as anybody's. One process, so that nothing is left behind however it ends.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from lochan.base.errors import Bug, LochanError
from lochan.cli.printing import make_console
from lochan.settings import Settings

if TYPE_CHECKING:
    from lochan.assembly.serve import ServerReady


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty directory for the data, kept.  [default: a temporary one]",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Where to serve.")
@click.option("--once", is_flag=True, help="End after the story instead of serving on.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    help="A directory for the reports of the audits, kept.  [default: with the data]",
)
def demo(data: Path | None, port: int, once: bool, report: Path | None) -> None:
    """Start a server, tell a short story on it, and leave it serving."""
    if data is not None and data.is_dir() and any(data.iterdir()):
        raise click.UsageError(f"{data} is not empty; name a new or empty directory")
    from lochan.assembly.serve import serve

    with TemporaryDirectory(prefix="lochan-demo-") as temporary:
        place = Path(temporary) if data is None else data
        place.mkdir(parents=True, exist_ok=True)
        # Defaults only: the demo is the same whatever the environment says.
        settings = Settings(store=f"rocksdb:{place / 'store'}", port=port)
        telling = _Telling(make_console(), place, report or place / "reports", once=once)
        serve(settings, telling.start)
        telling.end()
        if once and data is None and report is None:
            click.echo("The data was temporary and is gone; --data DIR or --report DIR keeps it.")


class _Telling:
    """Tells the story beside the server, once that is ready."""

    def __init__(self, out: Console, place: Path, reports: Path, *, once: bool) -> None:
        self._out = out
        self._place = place
        self._reports = reports
        self._once = once
        self._failure: LochanError | None = None
        self._is_over = False
        self._thread: Thread | None = None

    def start(self, serving: ServerReady) -> None:
        """Begins; returns at once."""
        self._thread = Thread(target=self._tell, args=(serving.url,), name="story", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Says the last word, after the server has stopped; raises what the story failed with."""
        if self._thread is not None:
            # Who stopped the server in the middle of the story knows why it fails.
            is_over = self._is_over
            self._thread.join()
            if self._failure is not None and is_over:
                raise self._failure
        self._out.print("That was the story." if self._once else "stopped")

    def _tell(self, url: str) -> None:
        from lochan.cli.pipeline import Pipeline
        from lochan.cli.story import Story

        out = self._out
        out.print(Text(f"Lochan serves an empty catalog at {url}, kept in {self._place}", "bold"))
        try:
            Story(url, out).tell()
            Pipeline(url, self._place, self._reports, out).tell()
        except LochanError as error:
            self._failure = error
        except BaseException as error:
            self._failure = Bug(f"the story broke off: {error!r}")
            raise
        finally:
            self._is_over = True
            if self._once or self._failure is not None:
                os.kill(os.getpid(), signal.SIGTERM)
        if not self._once and self._failure is None:
            self._invite(url)

    def _invite(self, url: str) -> None:
        out = self._out
        out.print("\nThat was the story. The server goes on until Ctrl-C; in another shell:")
        for command in (
            f"lochan log --url {url}",
            f"lochan content list --url {url} --on v1",
            f"curl {url}/api/v2/trees/main/history",
        ):
            out.print(f"   {command}", soft_wrap=True)
