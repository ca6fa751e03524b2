"""The commands `login` and `logout`: credentials for a server, verified and kept in a profile.

Secrets come from a prompt, a file or standard input, never from the command line, which every user
of the machine can see and which the shell remembers.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from lochan.assembly.server_file import SERVER_FILE
from lochan.base.errors import Invalid, NotFound
from lochan.base.limits.client import TOKEN_BYTES_MAX
from lochan.cli.command_context import DATA_DIRECTORY, find_server
from lochan.cli.output import Printer
from lochan.client import Client
from lochan.client.addresses import is_loopback, server_of
from lochan.client.profiles import (
    DEFAULT_PROFILE,
    PROFILE_VARIABLE,
    Profile,
    ProfileFile,
    check_profile_name,
)
from lochan.model.access import Identity

# Tokens of Lochan, and JSON Web Tokens.
_SECRET: Final = re.compile(r"lochan_[0-9A-Za-z]+_|eyJ[\w-]+\.[\w-]+\.")

_ON_COMMAND_LINE: Final = (
    "a token was given on the command line, where every user of this machine can see it (`ps`) and "
    "the shell remembers it: replace the token, and leave it out here; it is prompted for, or read "
    "by --token-stdin or --token-file FILE"
)


class SecretlessCommand(click.Command):
    """A command that refuses arguments that look like a secret, before anything repeats them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses secrets; then parses as usual."""
        if any(_SECRET.search(each) for each in args):
            raise click.UsageError(_ON_COMMAND_LINE, ctx)
        return super().parse_args(ctx, args)


profile_option = click.option(
    "--profile",
    envvar=PROFILE_VARIABLE,
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME",
    help="The name of the profile.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")


class LoginDocument(msgspec.Struct, frozen=True, rename="camel"):
    """What `lochan login --json` prints."""

    profile: str
    url: str
    user: str
    roles: tuple[str, ...]
    expires_at: datetime | None


@click.command(cls=SecretlessCommand)
@click.argument("url", required=False)
@profile_option
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Read the token, or the secret of the access key, from this file.",
)
@click.option(
    "--token-stdin",
    is_flag=True,
    help="Read the token, or the secret of the access key, from standard input.",
)
@click.option("--access-key", metavar="ID", help="Log in with an access key instead of a token.")
@click.option(
    "--short-lived",
    is_flag=True,
    help="Store a token for an hour instead of the secret of the access key.",
)
@click.option("--repository", metavar="NAME", help="The repository that the profile uses.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Send the credentials over plain http to another machine: everyone on the way reads them.",
)
@json_option
@click.pass_context
def login(
    ctx: click.Context,
    url: str | None,
    profile: str,
    token_file: Path | None,
    token_stdin: bool,
    access_key: str | None,
    short_lived: bool,
    repository: str | None,
    insecure: bool,
    as_json: bool,
) -> None:
    """Log in to the server at URL, and keep the credentials in a profile.

    The token is prompted for. The server has to accept it before it is stored, in
    ~/.config/lochan/credentials.toml, which only you can read. All commands and libraries use it
    for this server, and for no other.
    """
    ctx.meta["lochan.json"] = as_json
    if token_file is not None and token_stdin:
        raise click.UsageError("--token-file and --token-stdin were both given; give one of them")
    if short_lived and access_key is None:
        raise click.UsageError("--short-lived needs --access-key: a token is stored as it is")
    file = ProfileFile()
    server = _server(file, check_profile_name(profile), url)
    what = f"{'Secret' if access_key else 'Token'} for {server}"
    secret = _read_secret(token_file, token_stdin, what)
    entered = _entered(server, access_key, secret, insecure)
    stored, identity = _verify(entered, short_lived=short_lived)
    if repository is not None:
        stored = msgspec.structs.replace(stored, repository=repository)
    path = file.store(profile, stored)
    expires = "" if stored.expires_at is None else f" until {stored.expires_at:%Y-%m-%d %H:%M} UTC"
    roles = f" ({', '.join(identity.roles)})" if identity.roles else ""
    Printer(as_json).document(
        LoginDocument(profile, server, identity.name, identity.roles, stored.expires_at),
        f"logged in to {server} as {identity.name}{roles}{expires}\n"
        f"the profile {profile} is in {path}",
    )


@click.command()
@profile_option
@json_option
@click.pass_context
def logout(ctx: click.Context, profile: str, as_json: bool) -> None:
    """Remove a profile and the credentials in it.

    A token or access key stays valid on the server until it is deleted there or expires.
    """
    ctx.meta["lochan.json"] = as_json
    file = ProfileFile()
    found = file.get(profile)
    file.remove(profile)
    document = {"profile": profile, "url": found.url}
    Printer(as_json).document(document, f"removed the profile {profile} for {found.url}")


def _server(file: ProfileFile, name: str, url: str | None) -> str:
    """Returns the address of the server to log in to."""
    known = file.read().get(name)
    running = None if url or known else find_server()
    found = url or (known.url if known else None) or os.environ.get("LOCHAN_URL")
    if found is None and running is not None:
        if not (is_loopback(running.url) and is_own_server_file()):
            # The user who wrote the file would get the secret that is entered next.
            raise click.UsageError(
                f"{DATA_DIRECTORY / SERVER_FILE} names a server of another machine or was written "
                "by another user, so no secret is sent there: name the server yourself"
            )
        found = running.url
    if found is None:
        raise click.UsageError("name the server: lochan login https://host")
    server = server_of(found).rstrip("/")
    if known is not None and server_of(known.url) != server_of(server):
        raise Invalid(
            f"the profile {name!r} is for {known.url}; choose another name with --profile NAME, or "
            f"remove it with `lochan logout --profile {name}`"
        )
    return server


def is_own_server_file() -> bool:
    """Returns whether this user, or the administrator of the machine, wrote the server file."""
    try:
        owner = (DATA_DIRECTORY / SERVER_FILE).stat().st_uid
    except OSError:
        return False
    return owner in (os.geteuid(), 0)


def _read_secret(file: Path | None, from_stdin: bool, what: str) -> str:
    if file is not None:
        try:
            with file.open("rb") as opened:
                content = opened.read(TOKEN_BYTES_MAX + 1)
        except OSError as error:
            raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    elif from_stdin:
        content = sys.stdin.buffer.read(TOKEN_BYTES_MAX + 1)
    elif is_terminal():
        entered: str = click.prompt(what, hide_input=True, err=True)
        content = entered.encode()
    else:
        raise click.UsageError(
            "there is no terminal to enter the secret: use --token-stdin or --token-file FILE"
        )
    try:
        return content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise Invalid("a token or secret has letters, digits and marks of ASCII only") from None


def is_terminal() -> bool:
    """Returns whether a person can be prompted."""
    return sys.stdin.isatty()


def _entered(server: str, access_key: str | None, secret: str, insecure: bool) -> Profile:
    if access_key is None:
        return Profile(url=server, token=secret, insecure=insecure)
    return Profile(
        url=server, access_key_id=access_key, access_key_secret=secret, insecure=insecure
    )


def _verify(entered: Profile, *, short_lived: bool) -> tuple[Profile, Identity]:
    """Returns what is to be stored and who that is; raises if the server does not accept it."""
    if short_lived:
        with _client(entered) as client:
            made = client.access.login(entered.access_key_id, entered.access_key_secret)
        expires = datetime.fromtimestamp(made.expires_us / 1e6, UTC)
        entered = Profile(
            url=entered.url, token=made.secret, insecure=entered.insecure, expires_at=expires
        )
    with _client(entered) as client:
        try:
            status = client.access.status()
        except NotFound:
            raise Invalid(f"{entered.url} has no users: it is another or an older server") from None
        if not (status.is_set_up or status.accepts_oidc):
            raise Invalid(
                f"{entered.url} needs no credentials yet, so nothing was stored; "
                "`lochan access setup` creates its first user"
            )
        return entered, client.access.whoami()


def _client(profile: Profile) -> Client:
    if profile.access_key_id:
        pair = (profile.access_key_id, profile.access_key_secret)
        return Client(profile.url, access_key=pair, insecure=profile.insecure)
    return Client(profile.url, token=profile.token, insecure=profile.insecure)
