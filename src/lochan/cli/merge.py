"""`lochan merge`, `transplant`, `cherry-pick`, `revert` and `rebase`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from rich.text import Text

from lochan.base.errors import ContentNotFound, Invalid
from lochan.cli import exit_codes
from lochan.cli.arguments import BRANCH, SPEC, author_option, message_option
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.content import read_content
from lochan.cli.keys import key_text, parse_key
from lochan.cli.output import Cell, plain, short
from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.contents import Content
from lochan.model.requests import KeyResolution
from lochan.model.results import KeyOutcome, Merged, PathOutcome

_BEHAVIOURS: Final = ("NORMAL", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT")

_into = click.option(
    "-b", "--into", "branch", type=BRANCH, default="-", show_default=True, help="The target branch."
)
_expected = click.option(
    "--expected", metavar="HASH", help="Refuse if the target changed the keys after this commit."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Report the result; change nothing.")
_default = click.option(
    "--default",
    type=click.Choice(_BEHAVIOURS, case_sensitive=False),
    default="NORMAL",
    show_default=True,
    help="The behaviour for keys without --key.",
)
_key = click.option(
    "--key",
    "behaviours",
    multiple=True,
    metavar="KEY=BEHAVIOUR",
    help="The behaviour for one key: FORCE takes the source's value, DROP keeps the target's.",
)
_path = click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="PATH=BEHAVIOUR",
    help="The behaviour for one file, as for --key.",
)
_resolve = click.option(
    "--resolve",
    "resolutions",
    multiple=True,
    metavar="KEY=FILE",
    help="The merged value of a key, as JSON in a file; KEY=nothing deletes the key.",
)
_written = (message_option, author_option)
_squash = click.option("--squash", is_flag=True, help="Combine them into one commit.")


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@click.command()
@click.argument("source", type=SPEC)
@_options(_into, *_written, _expected, _default, _key, _path, _resolve, _dry_run)
@click.option("--no-squash", is_flag=True, help="Repeat the source's commits one by one.")
@click.option("--ff-only", is_flag=True, help="Fast-forward the target, or refuse.")
@click.option("--overwrite", is_flag=True, help="Move the target to the source, whatever it holds.")
@catalog_command
def merge(
    context: CommandContext,
    source: str,
    branch: str,
    no_squash: bool,
    ff_only: bool,
    overwrite: bool,
    **options: Any,
) -> None:
    """Merge the changes of SOURCE into a branch."""
    merges = context.catalog.merges
    if ff_only and overwrite:
        raise click.UsageError("--ff-only and --overwrite were both given; give only one of them")
    if ff_only or overwrite:
        move = merges.fast_forward if ff_only else merges.force
        merged = move(branch, source, expected=options["expected"], dry_run=options["dry_run"])
    else:
        request = _request(context, branch, options)
        merged = merges.merge(branch, source, _meta(options), squash=not no_squash, **request)
    _print(context, merged, f"merged {source} into {merged.branch}", options["dry_run"])


@click.command()
@click.argument("source", type=BRANCH)
@click.argument("hashes", nargs=-1, required=True)
@_options(
    _into,
    message_option,
    author_option,
    _expected,
    _default,
    _key,
    _path,
    _resolve,
    _dry_run,
    _squash,
)
@catalog_command
def transplant(
    context: CommandContext,
    source: str,
    hashes: tuple[str, ...],
    branch: str,
    squash: bool,
    **options: Any,
) -> None:
    """Repeat consecutive commits of SOURCE, the oldest first, on a branch."""
    request = _request(context, branch, options)
    merged = context.catalog.merges.transplant(
        branch, source, hashes, _meta(options), squash=squash, **request
    )
    text = f"transplanted {_commits(len(hashes))} to {merged.branch}"
    _print(context, merged, text, options["dry_run"])


@click.command("cherry-pick")
@click.argument("hashes", nargs=-1, required=True)
@_options(
    _into,
    message_option,
    author_option,
    _expected,
    _default,
    _key,
    _path,
    _resolve,
    _dry_run,
    _squash,
)
@catalog_command
def cherry_pick(
    context: CommandContext, hashes: tuple[str, ...], branch: str, squash: bool, **options: Any
) -> None:
    """Repeat any commits on a branch; A..B is a range, after A and up to B."""
    request = _request(context, branch, options)
    merged = context.catalog.merges.cherry_pick(
        branch, hashes, _meta(options), squash=squash, **request
    )
    text = f"picked {_commits(len(merged.commits))} to {merged.branch}"
    _print(context, merged, text, options["dry_run"])


@click.command()
@click.argument("hashes", nargs=-1, required=True)
@_options(_into, message_option, author_option, _expected, _dry_run)
@catalog_command
def revert(context: CommandContext, hashes: tuple[str, ...], branch: str, **options: Any) -> None:
    """Undo commits of a branch by new commits, in the given order."""
    merged = context.catalog.merges.revert(
        branch,
        hashes,
        _meta(options),
        expected=options["expected"],
        dry_run=options["dry_run"],
        conflicts_as_result=True,
    )
    text = f"reverted {_commits(len(hashes))} on {merged.branch}"
    _print(context, merged, text, options["dry_run"])


@click.command()
@click.argument("onto", type=SPEC)
@_options(_into, _expected, _default, _key, _path, _dry_run)
@catalog_command
def rebase(context: CommandContext, onto: str, branch: str, **options: Any) -> None:
    """Repeat a branch's own commits on top of ONTO."""
    merged = context.catalog.merges.rebase(
        branch,
        onto,
        expected=options["expected"],
        default=options["default"],
        keys=_resolutions(context, branch, options["behaviours"], ()),
        paths=_paths(options["paths"]),
        dry_run=options["dry_run"],
    )
    _print(context, merged, f"rebased {merged.branch} onto {onto}", options["dry_run"])


def _meta(options: dict[str, Any]) -> str | CommitMeta | None:
    if options["author"] is None:
        message: str | None = options["message"]
        return message
    return CommitMeta(message=options["message"] or "", authors=(options["author"],))


def _request(context: CommandContext, branch: str, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments that merge, transplant and cherry-pick share."""
    behaviours, resolutions = options["behaviours"], options["resolutions"]
    return {
        "expected": options["expected"],
        "default": options["default"],
        "keys": _resolutions(context, branch, behaviours, resolutions),
        "paths": _paths(options["paths"]),
        "dry_run": options["dry_run"],
        "conflicts_as_result": True,
    }


def _resolutions(
    context: CommandContext, branch: str, behaviours: tuple[str, ...], resolutions: tuple[str, ...]
) -> dict[ContentKey, KeyResolution]:
    """Returns what the options --key and --resolve request for single keys."""
    found: dict[ContentKey, KeyResolution] = {}
    for option in behaviours:
        text, _, behaviour = option.rpartition("=")
        if behaviour.upper() not in _BEHAVIOURS or not text:
            raise Invalid(
                f"--key {option}: write KEY=BEHAVIOUR, with one of {', '.join(_BEHAVIOURS)}"
            )
        found[parse_key(text)] = KeyResolution(behaviour=behaviour.upper())
    for option in resolutions:
        text, equals, file = option.partition("=")
        if not equals:
            raise Invalid(f"--resolve {option}: write KEY=FILE or KEY=nothing")
        key = parse_key(text)
        resolved = None if file == "nothing" else read_content(Path(file))
        target = _content_at(context, branch, key)
        found[key] = KeyResolution(expected_target=target, resolved=resolved)
    return found


def _paths(options: tuple[str, ...]) -> dict[str, str]:
    """Returns what the option --path requests for single files."""
    found: dict[str, str] = {}
    for option in options:
        path, _, behaviour = option.rpartition("=")
        if behaviour.upper() not in _BEHAVIOURS or not path:
            raise Invalid(
                f"--path {option}: write PATH=BEHAVIOUR, with one of {', '.join(_BEHAVIOURS)}"
            )
        found[path] = behaviour.upper()
    return found


def _content_at(context: CommandContext, branch: str, key: ContentKey) -> Content | None:
    try:
        return context.catalog.contents.get(branch, key)[0]
    except ContentNotFound:
        return None


def _commits(count: int) -> str:
    return "1 commit" if count == 1 else f"{count} commits"


def _print(context: CommandContext, merged: Merged, text: str, dry_run: bool) -> None:
    """Prints the result; exits with the code of a conflict if there is one."""
    from lochan.wire.merges import merge_v2

    printer = context.printer
    outcomes: list[KeyOutcome | PathOutcome] = [*merged.keys, *merged.paths]
    conflicts = [outcome for outcome in outcomes if outcome.conflict is not None]
    if printer.as_json:
        printer.line(merge_v2(merged, with_commits=True))
    elif conflicts:
        count = "1 key" if len(conflicts) == 1 else f"{len(conflicts)} keys"
        printer.text(f"conflict in {count} on {merged.branch}; nothing was written:")
        columns = ("key or path", "conflict", "reason")
        printer.table(conflicts, columns, _conflict_row, lambda outcome: outcome, "")
        printer.text(
            "take the source's value with --key KEY=FORCE, keep the target's with --key KEY=DROP, "
            "or give the merged value with --resolve KEY=FILE; for files with --path PATH=FORCE"
        )
    elif dry_run:
        counts = f"{len(merged.keys)} keys, {len(merged.paths)} files"
        printer.text(f"would have {text}: {counts}, no conflicts; nothing changed")
    elif not merged.applied:
        printer.text(
            f"nothing to do: {merged.branch} has all changes already, at {short(merged.hash)}"
        )
    else:
        printer.text(f"{text}, which is now at {short(merged.hash)}")
    if not merged.successful:
        raise SystemExit(exit_codes.CONFLICT)


def _conflict_row(outcome: KeyOutcome | PathOutcome) -> list[Cell]:
    conflict = outcome.conflict
    name = outcome.path if isinstance(outcome, PathOutcome) else key_text(outcome.key)
    kind, message = ("", "") if conflict is None else (conflict.kind, conflict.message)
    return [Text(plain(name), "yellow"), kind, message]
