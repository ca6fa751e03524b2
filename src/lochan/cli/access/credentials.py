"""`lochan access token` and `lochan access key`.

A secret is printed once, or written to a file; it is never an argument, where other users of the
machine could read it.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from lochan.access.tokens import parse_token
from lochan.base.errors import Invalid
from lochan.cli.access.options import (
    description_option,
    token_file_option,
    user_of,
    user_option,
)
from lochan.cli.access.secret_files import secret_file
from lochan.cli.arguments import span_us
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.groups import ListsByDefault
from lochan.cli.output import moment
from lochan.model.access import NewToken
from lochan.wire.access import access_key_out, new_access_key_out, new_token_out, token_out


def print_token(context: CommandContext, new: NewToken, file: Path | None) -> None:
    """Prints a token, or where it was written."""
    if file is None:
        context.printer.document(
            new_token_out(new), f"{new.secret}\nThe token is shown only this once."
        )
    else:
        document = {"token": token_out(new.token), "tokenFile": str(file)}
        context.printer.document(document, f"wrote the token to {file}")


@click.group(cls=ListsByDefault)
def token() -> None:
    """List, create and delete API tokens."""


@token.command("list")
@user_option
@catalog_command
def list_tokens(context: CommandContext, user: str | None) -> None:
    """List the tokens of a user, without their secrets."""
    context.printer.table(
        context.catalog.access.iterate_tokens(user_of(context, user)),
        ("token", "created", "expires", "scopes", "description"),
        lambda each: (
            each.id,
            moment(each.created_us),
            moment(each.expires_us),
            ", ".join(each.scopes),
            each.description,
        ),
        token_out,
        "no tokens",
    )


@token.command("create")
@user_option
@description_option
@click.option("--expires", metavar="SPAN", help="When it ends: after e.g. 12h, 30d, 52w.")
@click.option(
    "--scope", "scopes", multiple=True, metavar="POLICY", help="Allow no more than this policy."
)
@token_file_option
@catalog_command
def create_token(
    context: CommandContext,
    user: str | None,
    description: str,
    expires: str | None,
    scopes: tuple[str, ...],
    token_file: Path | None,
) -> None:
    """Create a token; it is shown once."""
    expires_us = None if expires is None else time.time_ns() // 1_000 + span_us(expires)
    owner = user_of(context, user)
    with secret_file(token_file) as write:
        new = context.catalog.access.create_token(
            owner, description, scopes=scopes, expires_us=expires_us
        )
        write(new.secret)
    print_token(context, new, token_file)


@token.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@catalog_command
def delete_tokens(context: CommandContext, ids: tuple[str, ...]) -> None:
    """Delete tokens by their ids."""
    for each in ids:
        parsed = parse_token(each)
        if parsed is not None:
            # Its text must not be repeated in messages.
            raise Invalid(f"this is the text of a token; delete it by its id: {parsed[0]}")
        context.catalog.access.delete_token(each)
        context.printer.document({"deleted": each}, f"deleted the token {each}")


@click.group(cls=ListsByDefault)
def key() -> None:
    """List, create and delete access keys."""


@key.command("list")
@user_option
@catalog_command
def list_keys(context: CommandContext, user: str | None) -> None:
    """List the access keys of a user, without their secrets."""
    context.printer.table(
        context.catalog.access.iterate_access_keys(user_of(context, user)),
        ("key", "created", "description"),
        lambda each: (each.id, moment(each.created_us), each.description),
        access_key_out,
        "no access keys",
    )


@key.command("create")
@user_option
@description_option
@click.option(
    "--secret-file",
    "secret_path",
    type=click.Path(path_type=Path),
    help="Write the secret to this new file, which only you may read, and do not print it.",
)
@catalog_command
def create_key(
    context: CommandContext, user: str | None, description: str, secret_path: Path | None
) -> None:
    """Create an access key; its secret is shown once."""
    owner = user_of(context, user)
    with secret_file(secret_path) as write:
        new = context.catalog.access.create_access_key(owner, description)
        write(new.secret)
    if secret_path is None:
        text = f"id      {new.key.id}\nsecret  {new.secret}\nThe secret is shown only this once."
        context.printer.document(new_access_key_out(new), text)
    else:
        document = {"accessKey": access_key_out(new.key), "secretFile": str(secret_path)}
        text = f"created the access key {new.key.id}; wrote its secret to {secret_path}"
        context.printer.document(document, text)


@key.command("delete")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@catalog_command
def delete_keys(context: CommandContext, ids: tuple[str, ...]) -> None:
    """Delete access keys by their ids."""
    for each in ids:
        context.catalog.access.delete_access_key(each)
        context.printer.document({"deleted": each}, f"deleted the access key {each}")
