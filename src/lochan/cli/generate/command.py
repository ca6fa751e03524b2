"""`lochan generate`: runs the workers and shows how it goes."""

from __future__ import annotations

from threading import Thread
from typing import Final

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from lochan.base.limits import GENERATE_COMMITS_MAX, GENERATE_WORKERS_MAX
from lochan.cli.command_context import CommandContext, errand
from lochan.cli.generate.plan import DEFAULT_PATTERN, TYPES, Plan, Wish
from lochan.cli.generate.tally import Summary, Tally
from lochan.cli.generate.work import Worker, make_branches
from lochan.cli.printing import Printer, make_console
from lochan.cli.specs import BRANCH
from lochan.system import SystemClock

_SHOWN_EVERY_S: Final = 0.2
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
    help="Spread the commits over so long; without it, as fast as possible.",
)
@click.option(
    "-w",
    "--workers",
    type=_count(high=GENERATE_WORKERS_MAX),
    default=1,
    show_default=True,
    help="How many commit at the same time.",
)
@click.option(
    "-D",
    "--default-branch",
    type=BRANCH,
    default="-",
    show_default=True,
    help="The first branch, from which others are made.",
)
@click.option("--continue-on-error", is_flag=True, help="Count errors and go on.")
@click.option("--author", default=Wish().author, show_default=True)
@click.option("--message", default=Wish().message, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed, the same run.")
@errand
def generate(
    job: CommandContext,
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
    """Fill a catalog with commits, and tell how fast that went."""
    plan = Plan(
        Wish(
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
    branches = make_branches(job.catalog, default_branch, num_branches)
    tally = Tally(SystemClock(), num_commits)
    made = [
        Worker(
            job.catalog,
            plan,
            branches,
            tally,
            duration_s=duration,
            continue_on_error=continue_on_error,
            sleep=tally.wait,
        )
        for _ in range(workers)
    ]
    interrupted = _run(made, tally, num_commits)
    _show(job.printer, tally.summary(workers))
    if tally.failure is not None:
        raise tally.failure
    if interrupted:
        raise SystemExit(_INTERRUPTED)


def _run(workers: list[Worker], tally: Tally, commits: int) -> bool:
    """Runs the workers to their end; tells whether somebody stopped them."""
    threads = [Thread(target=one.run, name=f"generate-{at}") for at, one in enumerate(workers)]
    interrupted = False
    with _bar() as bar:
        task = bar.add_task("commits", total=commits)
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                try:
                    thread.join(_SHOWN_EVERY_S)
                except KeyboardInterrupt:
                    # What is under way is finished and counted.
                    interrupted = True
                    tally.stop()
                bar.update(task, completed=tally.done)
    return interrupted


class _Rate(ProgressColumn):
    """How many a second, as far as that is known."""

    def render(self, task: Task) -> Text:
        """Returns the text of the column."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


def _bar() -> Progress:
    console = make_console(errors=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _show(printer: Printer, summary: Summary) -> None:
    if printer.as_json:
        printer.line(summary)
        return
    columns = ("decile", "commits", "seconds", "commits/s")
    printer.table(
        summary.deciles,
        columns,
        lambda one: (
            one.decile,
            f"{one.commits:,}",
            f"{one.seconds:,.2f}",
            f"{one.commits_per_second:,.0f}",
        ),
        lambda one: one,
        "less than a tenth was done",
    )
    printer.say(
        f"{summary.commits:,} commits with {summary.puts:,} puts in {summary.seconds:,.2f} s by "
        f"{summary.workers} workers: {summary.commits_per_second:,.0f} commits/s"
    )
    printer.say(
        f"{summary.namespaces:,} namespaces and {summary.tags:,} tags made, "
        f"{summary.conflicts:,} conflicts tried again, {summary.errors:,} errors"
    )
