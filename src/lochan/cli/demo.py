"""`lochan demo`: starts a server on the embedded store, runs example requests, and keeps serving.

The server has the main thread, because signals end it; the examples run in another thread, over the
same socket as any client. All is one process, so that nothing is left however it ends.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

import click
from rich.text import Text

from lochan.base.errors import Bug, LochanError
from lochan.cli.output import DemoOutput, make_console
from lochan.settings import Settings

if TYPE_CHECKING:
    from lochan.assembly.serve import ServerReady


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty directory for the data, kept.  [default: a temporary one]",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port of the server.")
@click.option("--once", is_flag=True, help="Stop the server after the examples.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    help="A directory for the reports of the audits, kept.  [default: with the data]",
)
def demo(data: Path | None, port: int, once: bool, report: Path | None) -> None:
    """Start a server, run examples on it, and keep serving until Ctrl-C."""
    if data is not None and data.is_dir() and any(data.iterdir()):
        raise click.UsageError(f"{data} is not empty; name a new or empty directory")
    from lochan.assembly.serve import serve

    with TemporaryDirectory(prefix="lochan-demo-") as temporary:
        directory = Path(temporary) if data is None else data
        directory.mkdir(parents=True, exist_ok=True)
        # Only defaults: the demo does not depend on the environment.
        settings = Settings(store=f"rocksdb:{directory / 'store'}", port=port)
        examples = _Examples(directory, report or directory / "reports", once=once)
        serve(settings, examples.start)
        examples.end()
        if once and data is None and report is None:
            click.echo("The data was temporary and is gone; --data DIR or --report DIR keeps it.")


class _Examples:
    """Runs the examples in a thread beside the server, once that is ready."""

    def __init__(self, directory: Path, reports: Path, *, once: bool) -> None:
        self._output = DemoOutput(make_console())
        self._directory = directory
        self._reports = reports
        self._once = once
        self._failure: LochanError | None = None
        self._is_finished = False
        self._thread: Thread | None = None

    def start(self, serving: ServerReady) -> None:
        """Starts the thread; returns at once."""
        self._thread = Thread(target=self._run, args=(serving.url,), name="demo", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Prints the last line, after the server has stopped; raises the examples' failure."""
        if self._thread is not None:
            # If a signal stopped the server before the end, a failure of the rest is expected.
            is_finished = self._is_finished
            self._thread.join()
            if self._failure is not None and is_finished:
                raise self._failure
        self._output.console.print("The demo is finished." if self._once else "stopped")

    def _run(self, url: str) -> None:
        from lochan.cli.demo_catalog import CatalogDemo
        from lochan.cli.demo_files import FilesDemo
        from lochan.cli.demo_pipeline import PipelineDemo

        title = f"Lochan serves an empty catalog at {url}, stored in {self._directory}"
        self._output.console.print(Text(title, "bold"))
        try:
            CatalogDemo(url, self._output).run()
            FilesDemo(url, self._output).run()
            PipelineDemo(url, self._directory, self._reports, self._output).run()
        except LochanError as error:
            self._failure = error
        except BaseException as error:
            self._failure = Bug(f"the demo failed: {error!r}")
            raise
        finally:
            self._is_finished = True
            if self._once or self._failure is not None:
                os.kill(os.getpid(), signal.SIGTERM)
        if not self._once and self._failure is None:
            self._print_commands(url)

    def _print_commands(self, url: str) -> None:
        self._output.heading(
            "The demo is finished. The server runs until Ctrl-C; try in another shell:"
        )
        for command in (
            f"lochan log --url {url}",
            f"lochan content list --url {url} --on v1",
            f"lochan fs ls -r photos: --url {url}",
            f"curl {url}/api/v2/trees/main/history",
        ):
            self._output.line(command)
