"""`lochan generate`: runs the workers, shows the progress and prints the results."""

from __future__ import annotations

from threading import Thread
from typing import Final

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as ProgressBar
from rich.text import Text

from lochan.base.limits.client import GENERATE_COMMITS_MAX, GENERATE_WORKERS_MAX
from lochan.cli.arguments import BRANCH
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.generate.plan import DEFAULT_PATTERN, TYPES, GenerateOptions, Plan
from lochan.cli.generate.worker import Progress, Summary, Worker, make_branches
from lochan.cli.output import Printer, make_console
from lochan.system import SystemClock

_REFRESH_S: Final = 0.2
_INTERRUPTED: Final = 130


def _count(low: int = 1, high: int = GENERATE_COMMITS_MAX) -> click.IntRange:
    return click.IntRange(low, high)


@click.command()
@click.option("-n", "--num-commits", type=_count(), default=100, show_default=True)
@click.option("-b", "--num-branches", type=_count(), default=1, show_default=True)
@click.option("-t", "--num-tables", type=_count(), default=1, show_default=True)
@click.option("--puts-per-commit", type=_count(high=1_000), default=1, show_default=True)
@click.option("--type", "kind", type=click.Choice(TYPES), default=TYPES[0], show_default=True)
@click.option(
    "--key-pattern",
    default=DEFAULT_PATTERN,
    show_default=True,
    help="Text with ${uuid} ${int,n} ${string,len} ${seq,offset} ${prob,p,f} ${every,n,f}.",
)
@click.option("-T", "--tag-probability", type=click.FloatRange(0, 1), default=0.0)
@click.option(
    "-d",
    "--duration",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Spread the commits over this time; 0 is as fast as possible.",
)
@click.option(
    "-w",
    "--workers",
    type=_count(high=GENERATE_WORKERS_MAX),
    default=1,
    show_default=True,
    help="The number of threads that commit.",
)
@click.option(
    "-D",
    "--default-branch",
    type=BRANCH,
    default="-",
    show_default=True,
    help="The first branch; the others are created from it.",
)
@click.option("--continue-on-error", is_flag=True, help="Count errors and continue.")
@click.option("--author", default=GenerateOptions().author, show_default=True)
@click.option("--message", default=GenerateOptions().message, show_default=True)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The same seed repeats the run."
)
@catalog_command
def generate(
    context: CommandContext,
    num_commits: int,
    num_branches: int,
    num_tables: int,
    puts_per_commit: int,
    kind: str,
    key_pattern: str,
    tag_probability: float,
    duration: float,
    workers: int,
    default_branch: str,
    continue_on_error: bool,
    author: str,
    message: str,
    seed: int,
) -> None:
    """Fill a catalog with commits, and print the rate."""
    plan = Plan(
        GenerateOptions(
            commits=num_commits,
            branches=num_branches,
            tables=num_tables,
            puts=puts_per_commit,
            kind=kind,
            pattern=key_pattern,
            tag_probability=tag_probability,
            seed=seed,
            author=author,
            message=message,
        )
    )
    branches = make_branches(context.catalog, default_branch, num_branches)
    progress = Progress(SystemClock(), num_commits)
    threads = [
        Worker(
            context.catalog,
            plan,
            branches,
            progress,
            duration_s=duration,
            continue_on_error=continue_on_error,
            sleep=progress.stopped.wait,
        )
        for _ in range(workers)
    ]
    interrupted = _run(threads, progress, num_commits)
    _print(context.printer, progress.summary(workers))
    if progress.failure is not None:
        raise progress.failure
    if interrupted:
        raise SystemExit(_INTERRUPTED)


def _run(workers: list[Worker], progress: Progress, commits: int) -> bool:
    """Runs the workers to their end; returns whether Ctrl-C interrupted them."""
    threads = [
        Thread(target=worker.run, name=f"generate-{number}")
        for number, worker in enumerate(workers)
    ]
    interrupted = False
    with _bar() as bar:
        task = bar.add_task("commits", total=commits)
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                try:
                    thread.join(_REFRESH_S)
                except KeyboardInterrupt:
                    # Commits that have begun are finished and counted.
                    interrupted = True
                    progress.stopped.set()
                bar.update(task, completed=progress.done)
    return interrupted


class _Rate(ProgressColumn):
    """The rate in commits per second, once it is known."""

    def render(self, task: Task) -> Text:
        """Returns the text of the column."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


def _bar() -> ProgressBar:
    console = make_console(errors=True)
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _print(printer: Printer, summary: Summary) -> None:
    if printer.as_json:
        printer.line(summary)
        return
    columns = ("decile", "commits", "seconds", "commits/s")
    printer.table(
        summary.deciles,
        columns,
        lambda each: (
            each.decile,
            f"{each.commits:,}",
            f"{each.seconds:,.2f}",
            f"{each.commits_per_second:,.0f}",
        ),
        lambda each: each,
        "less than a tenth of the commits was made",
    )
    printer.text(
        f"{summary.commits:,} commits with {summary.puts:,} puts in {summary.seconds:,.2f} s by "
        f"{summary.workers} workers: {summary.commits_per_second:,.0f} commits/s"
    )
    printer.text(
        f"{summary.namespaces:,} namespaces and {summary.tags:,} tags created, "
        f"{summary.conflicts:,} conflicts retried, {summary.errors:,} errors"
    )
