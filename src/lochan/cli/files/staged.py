"""`lochan commit` and `lochan reset`: staged changes become a commit, or are dropped."""

from __future__ import annotations

import click

from lochan.base.errors import Invalid
from lochan.cli.arguments import BRANCH, SPEC, author_option
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.output import short
from lochan.model.commits import CommitMeta
from lochan.wire.commits import commit_response
from lochan.wire.references import reference_v2

_branch = click.argument("branch", type=BRANCH, default="-")


@click.command()
@_branch
@click.option("-m", "--message", required=True, help="The message of the new commit.")
@author_option
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing is staged.")
@click.option("--expected", metavar="HASH", help="Refuse if the branch has moved on.")
@catalog_command
def commit(
    context: CommandContext,
    branch: str,
    message: str,
    author: str | None,
    allow_empty: bool,
    expected: str | None,
) -> None:
    """Commit the staged files of BRANCH."""
    meta = CommitMeta(message=message, authors=() if author is None else (author,))
    files = context.catalog.files
    done = files.commit(branch, meta, allow_empty=allow_empty, expected=expected)
    text = f"{message}: {done.branch} is now at {short(done.hash)}"
    context.printer.document(commit_response(done), text)


@click.command()
@_branch
@click.option("--path", help="Only the change of this file.")
@click.option("--prefix", help="Only changes of files whose paths begin with this text.")
@click.option("--hard", type=SPEC, metavar="COMMIT", help="Move the branch to this commit.")
@click.option(
    "--discard-staged", is_flag=True, help="With --hard: drop what is staged, instead of refusing."
)
@catalog_command
def reset(
    context: CommandContext,
    branch: str,
    path: str | None,
    prefix: str | None,
    hard: str | None,
    discard_staged: bool,
) -> None:
    """Drop the staged changes of BRANCH: all of them, or those of a path or a prefix."""
    files = context.catalog.files
    if hard is None:
        if discard_staged:
            raise Invalid(
                "--discard-staged belongs to --hard; without it, staged changes are dropped"
            )
        files.reset(branch, prefix=prefix, path=path)
        what = path if path is not None else f"{prefix}*" if prefix is not None else "all"
        result = {"branch": branch, "path": path, "prefix": prefix}
        context.printer.document(result, f"dropped the staged changes of {branch}: {what}")
        return
    if path is not None or prefix is not None:
        raise Invalid("--hard moves the whole branch: leave --path and --prefix out")
    moved = files.hard_reset(branch, hard, discard_staged=discard_staged)
    text = f"{moved.name or branch} is now at {short(moved.hash)}"
    context.printer.document(reference_v2(moved), text)
