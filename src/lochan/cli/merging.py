"""`lochan merge`, `transplant`, `cherry-pick`, `revert` and `rebase`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from lochan.base.errors import ContentNotFound, Invalid
from lochan.cli import exits
from lochan.cli.command_context import CommandContext, errand
from lochan.cli.content import read_content
from lochan.cli.keys import key_text, parse_key
from lochan.cli.printing import plain, short
from lochan.cli.specs import BRANCH, SPEC
from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.requests import KeyResolution
from lochan.model.results import KeyOutcome, Merged

_BEHAVIOURS: Final = ("NORMAL", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT")

_into = click.option(
    "-b", "--into", "branch", type=BRANCH, default="-", show_default=True, help="The target branch."
)
_message = click.option("-m", "--message", help="The message of the new commit.")
_author = click.option("--author", help="The author of the new commit.")
_expected = click.option(
    "--expected", metavar="HASH", help="Refuse if keys changed in the target since this commit."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Only tell what would happen.")
_default = click.option(
    "--default",
    type=click.Choice(_BEHAVIOURS, case_sensitive=False),
    default="NORMAL",
    show_default=True,
    help="What to do with keys that are not named.",
)
_key = click.option(
    "--key",
    "choices",
    multiple=True,
    metavar="KEY=BEHAVIOUR",
    help="What to do with one key: FORCE takes the source's, DROP keeps the target's.",
)
_resolve = click.option(
    "--resolve",
    "resolutions",
    multiple=True,
    metavar="KEY=FILE",
    help="What a key shall hold, as JSON in a file; 'nothing' deletes it.",
)


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@click.command()
@click.argument("source", type=SPEC)
@_options(_into, _message, _author, _expected, _default, _key, _resolve, _dry_run)
@click.option("--no-squash", is_flag=True, help="Make the source's commits again, one by one.")
@click.option("--ff-only", is_flag=True, help="Refuse unless the target only has to move ahead.")
@click.option("--overwrite", is_flag=True, help="Make the target what the source is.")
@errand
def merge(
    job: CommandContext,
    source: str,
    branch: str,
    no_squash: bool,
    ff_only: bool,
    overwrite: bool,
    **how: Any,
) -> None:
    """Bring what SOURCE has into a branch."""
    merges = job.catalog.merges
    if ff_only or overwrite:
        if ff_only and overwrite:
            raise click.UsageError("choose one of --ff-only and --overwrite")
        move = merges.fast_forward if ff_only else merges.force
        done = move(branch, source, expected=how["expected"], dry_run=how["dry_run"])
    else:
        done = merges.merge(
            branch,
            source,
            _said(how),
            expected=how["expected"],
            default=how["default"],
            keys=_wishes(job, branch, how),
            dry_run=how["dry_run"],
            conflicts_as_result=True,
            squash=not no_squash,
        )
    _tell(job, done, f"merged {source} into {done.branch}", how["dry_run"])


@click.command()
@click.argument("source", type=BRANCH)
@click.argument("hashes", nargs=-1, required=True)
@_options(_into, _message, _author, _expected, _default, _key, _resolve, _dry_run)
@click.option("--squash", is_flag=True, help="Make one commit of them.")
@errand
def transplant(
    job: CommandContext, source: str, hashes: tuple[str, ...], branch: str, squash: bool, **how: Any
) -> None:
    """Make HASHES, commits of SOURCE that follow each other, again on a branch; oldest first."""
    done = job.catalog.merges.transplant(
        branch,
        source,
        hashes,
        _said(how),
        expected=how["expected"],
        default=how["default"],
        keys=_wishes(job, branch, how),
        dry_run=how["dry_run"],
        conflicts_as_result=True,
        squash=squash,
    )
    _tell(job, done, f"transplanted {_commits(len(hashes))} to {done.branch}", how["dry_run"])


@click.command("cherry-pick")
@click.argument("hashes", nargs=-1, required=True)
@_options(_into, _message, _author, _expected, _default, _key, _resolve, _dry_run)
@click.option("--squash", is_flag=True, help="Make one commit of them.")
@errand
def cherry_pick(
    job: CommandContext, hashes: tuple[str, ...], branch: str, squash: bool, **how: Any
) -> None:
    """Make any commits again on a branch; A..B is a range, after A and up to B."""
    done = job.catalog.merges.cherry_pick(
        branch,
        hashes,
        _said(how),
        expected=how["expected"],
        default=how["default"],
        keys=_wishes(job, branch, how),
        dry_run=how["dry_run"],
        conflicts_as_result=True,
        squash=squash,
    )
    _tell(job, done, f"picked {_commits(len(done.commits))} to {done.branch}", how["dry_run"])


@click.command()
@click.argument("hashes", nargs=-1, required=True)
@_options(_into, _message, _author, _expected, _dry_run)
@errand
def revert(job: CommandContext, hashes: tuple[str, ...], branch: str, **how: Any) -> None:
    """Undo commits of a branch by new ones, in the order given."""
    done = job.catalog.merges.revert(
        branch,
        hashes,
        _said(how),
        expected=how["expected"],
        dry_run=how["dry_run"],
        conflicts_as_result=True,
    )
    _tell(job, done, f"reverted {_commits(len(hashes))} on {done.branch}", how["dry_run"])


@click.command()
@click.argument("onto", type=SPEC)
@_options(_into, _expected, _default, _key, _dry_run)
@errand
def rebase(job: CommandContext, onto: str, branch: str, **how: Any) -> None:
    """Make a branch's own commits again on top of ONTO."""
    done = job.catalog.merges.rebase(
        branch,
        onto,
        expected=how["expected"],
        default=how["default"],
        keys=_wishes(job, branch, {"resolutions": (), **how}),
        dry_run=how["dry_run"],
    )
    _tell(job, done, f"rebased {done.branch} onto {onto}", how["dry_run"])


def _said(how: dict[str, Any]) -> str | CommitMeta | None:
    if how["author"] is None:
        message: str | None = how["message"]
        return message
    return CommitMeta(message=how["message"] or "", authors=(how["author"],))


def _wishes(
    job: CommandContext, branch: str, how: dict[str, Any]
) -> dict[ContentKey, KeyResolution]:
    wishes: dict[ContentKey, KeyResolution] = {}
    for choice in how["choices"]:
        text, _, behaviour = choice.rpartition("=")
        if behaviour.upper() not in _BEHAVIOURS or not text:
            raise Invalid(f"--key takes KEY=BEHAVIOUR, one of {', '.join(_BEHAVIOURS)}")
        wishes[parse_key(text)] = KeyResolution(behaviour=behaviour.upper())
    for resolution in how["resolutions"]:
        text, equals, file = resolution.partition("=")
        if not equals:
            raise Invalid("--resolve takes KEY=FILE, or KEY=nothing")
        key = parse_key(text)
        resolved = None if file == "nothing" else read_content(Path(file))
        wishes[key] = KeyResolution(expected_target=_target(job, branch, key), resolved=resolved)
    return wishes


def _target(job: CommandContext, branch: str, key: ContentKey) -> Any:
    try:
        return job.catalog.contents.get(branch, key)[0]
    except ContentNotFound:
        return None


def _commits(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def _tell(job: CommandContext, done: Merged, sentence: str, dry_run: bool) -> None:
    from lochan.wire.merges import merge_v2

    conflicts = [one for one in done.keys if one.conflict is not None]
    if job.printer.as_json:
        job.printer.line(merge_v2(done, with_commits=True))
    elif conflicts:
        count = "1 key stands" if len(conflicts) == 1 else f"{len(conflicts)} keys stand"
        job.printer.say(f"{count} against it; nothing was written:")
        columns = ("key", "conflict", "what")
        job.printer.table(conflicts, columns, _conflict_row, lambda one: one, "")
        job.printer.say("choose with --key KEY=FORCE or --key KEY=DROP, or use --resolve KEY=FILE")
    elif dry_run:
        job.printer.say(f"would have {sentence}: {len(done.keys)} keys, no conflicts")
    elif not done.applied:
        job.printer.say(f"nothing to do: {done.branch} has it all, at {short(done.hash)}")
    else:
        job.printer.say(f"{sentence}, which is at {short(done.hash)} now")
    if not done.successful:
        raise SystemExit(exits.CONFLICT)


def _conflict_row(one: KeyOutcome) -> list[Any]:
    kind, message = ("", "") if one.conflict is None else (one.conflict.kind, one.conflict.message)
    return [Text(plain(key_text(one.key)), "yellow"), kind, message]
