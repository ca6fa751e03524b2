"""The options that commands on a catalog share, and the context that such a command gets.

A catalog is a server (`--url`), the server of a profile (`--profile`), or a store that this process
opens (`--store`). If none is given, it is the first of these that there is: the server that runs in
this directory, according to `.lochan/server.json`; the store under `.lochan`; the server of the
profile `default`. Otherwise a store is created.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from click.core import ParameterSource

from lochan.assembly.server_file import SERVER_FILE, ServerFile, read_server_file
from lochan.base.errors import Invalid, Unavailable
from lochan.cli.output import Printer
from lochan.kv.url import parse_store_url

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.client.profiles import Profile
    from lochan.embedded import Embedded

    Catalog = Client | Embedded

DATA_DIRECTORY: Final = Path(".lochan")
DEFAULT_STORE: Final = DATA_DIRECTORY / "store"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A repository: on a server, or in a store that this process opens."""

    url: str | None = None
    store: str | None = None
    repository: str = "default"
    profile: str | None = None

    def open(self) -> Catalog:
        """Opens the repository; the result is a context manager."""
        if self.url is not None:
            from lochan.client import Client

            return Client(self.url, self.repository, profile=self.profile)
        from lochan.embedded import open_repository

        return open_repository(self.store or "", self.repository)

    def address(self) -> str:
        """Returns the URL of the server, or that of the store without its password."""
        return self.url or str(parse_store_url(self.store or ""))


def find_target(
    url: str | None, store: str | None, repository: str | None, profile: str | None = None
) -> Target:
    """Returns the catalog for the options of a command; the module's docstring has the order.

    With a URL, `profile` only names the credentials.
    """
    if url is None and store is None and profile is not None:
        from lochan.client.profiles import ProfileFile

        return _of_profile(profile, ProfileFile().get(profile), repository)
    repository_or_default = repository or "default"
    if url is not None or store is not None:
        return Target(url=url, store=store, repository=repository_or_default, profile=profile)
    running = find_server()
    if running is not None:
        return Target(url=running.url, repository=repository_or_default)
    if not DEFAULT_STORE.exists():
        from lochan.client.profiles import DEFAULT_PROFILE, ProfileFile

        found = ProfileFile().read().get(DEFAULT_PROFILE)
        if found is not None:
            return _of_profile(DEFAULT_PROFILE, found, repository)
        _make_data_directory()
    return Target(store=f"rocksdb:{DEFAULT_STORE}", repository=repository_or_default)


def _of_profile(name: str, profile: Profile, repository: str | None) -> Target:
    used = repository or profile.repository or "default"
    return Target(url=profile.url, repository=used, profile=name)


def _make_data_directory() -> None:
    try:
        DATA_DIRECTORY.mkdir(exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"no server runs in this directory, and no store can be created in "
            f"{DATA_DIRECTORY}: {error.strerror}; name one with --url or --store"
        ) from None
    click.echo(f"creating a new store in {DEFAULT_STORE}", err=True)


def find_server() -> ServerFile | None:
    """Returns the server that runs in this directory; ignores the file of one that has ended."""
    return read_server_file(DATA_DIRECTORY / SERVER_FILE)


class CommandContext:
    """One run of one command: its catalog, opened on first use, and its printer."""

    def __init__(self, ctx: click.Context, target: Target, as_json: bool) -> None:
        self._ctx = ctx
        self.target = target
        self.printer = Printer(as_json)
        self._others: dict[str, Catalog] = {}

    @functools.cached_property
    def catalog(self) -> Catalog:
        """The catalog that the options name; click closes it at the end of the command."""
        catalog = self.target.open()
        self._ctx.call_on_close(catalog.close)
        return catalog

    def catalog_of(self, repository: str) -> Catalog:
        """Returns the catalog of another repository at the same place; empty is that of options."""
        if repository in ("", self.target.repository):
            return self.catalog
        found = self._others.get(repository)
        if found is None:
            if self.target.url is None:
                raise Invalid(
                    f"one command opens one repository of a store: name {repository!r} with "
                    "--repository, or start a server"
                )
            found = msgspec.structs.replace(self.target, repository=repository).open()
            self._ctx.call_on_close(found.close)
            self._others[repository] = found
        return found


def catalog_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that name a catalog; passes a `CommandContext` as the first argument."""
    named = click.option(
        "--repository",
        envvar="LOCHAN_REPOSITORY",
        metavar="NAME",
        help="The name of the repository.  [default: that of the profile, or default]",
    )
    return named(store_command(function))


def store_command(function: Callable[..., None]) -> Callable[..., None]:
    """As `catalog_command`, for commands on all that a server or a store has."""

    @click.option("--url", envvar="LOCHAN_URL", metavar="URL", help="The server to connect to.")
    @click.option(
        "--store", envvar="LOCHAN_STORE", metavar="URL", help="The store to open, without a server."
    )
    @click.option(
        "--profile",
        envvar="LOCHAN_PROFILE",
        metavar="NAME",
        help="The server and the credentials of `lochan login`.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON: one line for each item.")
    @click.pass_context
    @functools.wraps(function)
    def command(
        ctx: click.Context,
        /,
        url: str | None,
        store: str | None,
        profile: str | None,
        as_json: bool,
        repository: str | None = None,
        **arguments: Any,
    ) -> None:
        url, store, profile = _choose(ctx, url, store, profile)
        ctx.meta["lochan.json"] = as_json
        target = find_target(url, store, repository, profile)
        function(CommandContext(ctx, target, as_json), **arguments)

    return command


def _choose(
    ctx: click.Context, url: str | None, store: str | None, profile: str | None
) -> tuple[str | None, str | None, str | None]:
    """Returns the URL, the store and the profile that count.

    An option wins over the environment; a variable never conflicts with a typed option.
    """
    typed = {
        name
        for name in ("url", "store", "profile")
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    for other in ("url", "profile"):
        if {"store", other} <= typed:
            raise click.UsageError(f"--{other} and --store were both given; give only one of them")
    if "store" in typed:
        return None, store, None
    if "url" in typed:
        # A client chooses among the profiles of the server by the variable itself.
        return url, None, profile if "profile" in typed else None
    if "profile" in typed:
        return None, None, profile
    if url is not None:
        return url, None, None
    return None, store, None if store is not None else profile
