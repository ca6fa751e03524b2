"""`lochan access`: the group of its commands, set-up, and what it shows about decisions."""

from __future__ import annotations

from pathlib import Path

import click

from lochan.access.tokens import new_token
from lochan.base.errors import Invalid
from lochan.cli import exit_codes
from lochan.cli.access.credentials import key, print_token, token
from lochan.cli.access.options import token_file_option
from lochan.cli.access.policies import policy, protect, unprotect
from lochan.cli.access.principals import group, user
from lochan.cli.access.resources import NamedResource, parse_resource
from lochan.cli.access.secret_files import secret_file
from lochan.cli.command_context import CommandContext, catalog_command
from lochan.cli.output import Cell
from lochan.system import SystemRandom
from lochan.wire.access import explanation_out, identity_out, status_out


@click.group()
def access() -> None:
    """Manage users, groups, policies, tokens and access keys."""


@access.command()
@click.option("--user", default="admin", show_default=True, help="The id of the first user.")
@token_file_option
@catalog_command
def setup(context: CommandContext, user: str, token_file: Path | None) -> None:
    """Create the first user, who may do everything, and a token.

    This can be done once. From then on every request needs credentials.
    """
    catalog = context.catalog.access
    if catalog.status().is_set_up:
        raise Invalid("set-up was done before; log in with `lochan login`")
    # The token is chosen here, and stored before it is sent: whatever happens to the reply, the
    # first user is not locked out.
    _, chosen, _ = new_token(SystemRandom())
    with secret_file(token_file) as write:
        write(chosen)
        new = catalog.set_up(user, token=chosen)
    context.printer.text(f"created the user {new.token.user}, who may do everything")
    print_token(context, new, token_file)
    with_token = "" if token_file is None else f" --token-file {token_file}"
    context.printer.text(
        f"From now on every request needs credentials: log in with `lochan login{with_token}`. "
        "`lochan access user create NAME` creates more users."
    )


@access.command()
@catalog_command
def status(context: CommandContext) -> None:
    """Show whether requests need credentials."""
    found = context.catalog.access.status()
    text = (
        "requests need credentials"
        if found.is_set_up or found.accepts_oidc
        else "requests need no credentials; `lochan access setup` creates the first user"
    )
    if found.accepts_oidc:
        text += "; tokens of an identity provider are accepted"
    context.printer.document(status_out(found), text)


@access.command()
@catalog_command
def whoami(context: CommandContext) -> None:
    """Show who you are to the server."""
    found = context.catalog.access.whoami()
    if context.printer.as_json:
        context.printer.line(identity_out(found))
        return
    if not found.name:
        context.printer.text("this catalog is used without credentials, so you have no name here")
        return
    facts: dict[str, Cell] = {"user": found.name, "roles": ", ".join(found.roles)}
    facts["credential"] = found.credential
    context.printer.facts({name: value for name, value in facts.items() if value})


@access.command()
@click.argument("user_name", metavar="USER")
@click.argument("action")
@click.argument("resource", default="")
@click.option("--exit-code", is_flag=True, help="Leave with code 7 if it is denied.")
@catalog_command
def explain(
    context: CommandContext, user_name: str, action: str, resource: str, exit_code: bool
) -> None:
    """Show whether USER may do ACTION to RESOURCE, and which rule decides.

    \b
    RESOURCE is written
      main                       a branch or tag of --repository
      main:sales.orders          a key on it
      main:/raw/2026/a.parquet   a file on it
      lake//main:sales.orders    the same in the repository lake
      lake//                     the repository lake itself
    and left out for actions on the server, such as manage_access.
    """
    named = parse_resource(resource, context.target.repository) if resource else NamedResource("")
    found = context.catalog.access.explain(
        user_name,
        action,
        repository=named.repository,
        reference=named.reference,
        key=named.key,
        path=named.path,
    )
    if context.printer.as_json:
        context.printer.line(explanation_out(found))
    else:
        context.printer.text(f"{'allowed' if found.allowed else 'denied'}: {found.reason}")
        if found.policy:
            number = "" if found.statement is None else f", statement {found.statement}"
            by = f" ({found.via})" if found.via else ""
            context.printer.text(f"decided by the policy {found.policy}{number}{by}")
    if exit_code and not found.allowed:
        raise SystemExit(exit_codes.DENIED)


@access.command("rotate-key")
@catalog_command
def rotate_key(context: CommandContext) -> None:
    """Seal all stored secrets with the present key of the server.

    Put the new key before the old one in the server's setting, start the servers again, run this
    command, then remove the old key.
    """
    count = context.catalog.access.rotate_key()
    text = f"sealed {count} secret{'' if count == 1 else 's'} with the present key"
    context.printer.document({"resealed": count}, text)


for _each in (user, group, policy, token, key, protect, unprotect):
    access.add_command(_each)
