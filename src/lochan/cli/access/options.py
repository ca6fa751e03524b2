"""Options and arguments that several commands of access have."""

from __future__ import annotations

from pathlib import Path

import click

from lochan.base.errors import Invalid
from lochan.cli.command_context import CommandContext

description_option = click.option("--description", default="", help="A sentence for people.")

user_option = click.option(
    "--user", metavar="USER", help="The user; without it the one who runs the command."
)

token_file_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Write the token to this new file, which only you may read, and do not print it.",
)


def user_of(context: CommandContext, user: str | None) -> str:
    """Returns the user that an option names, by default the caller."""
    if user is not None:
        return user
    name = context.catalog.access.whoami().name
    if not name:
        raise Invalid("without a login there is no user; name one with --user")
    return name
