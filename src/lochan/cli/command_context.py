"""The options that commands on a catalog share, and the context that such a command gets.

A catalog is a server (`--url`) or a store that this process opens (`--store`). If neither is given,
it is the server that runs in this directory, according to `.lochan/server.json`, or else the store
under `.lochan`.
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
from lochan.base.errors import Unavailable
from lochan.cli.output import Printer
from lochan.kv.url import parse_store_url

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.embedded import Embedded

    Catalog = Client | Embedded

DATA_DIRECTORY: Final = Path(".lochan")
DEFAULT_STORE: Final = DATA_DIRECTORY / "store"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A repository: on a server, or in a store that this process opens."""

    url: str | None = None
    store: str | None = None
    repository: str = "default"

    def open(self) -> Catalog:
        """Opens the repository; the result is a context manager."""
        if self.url is not None:
            from lochan.client import Client

            return Client(self.url, self.repository)
        from lochan.embedded import open_repository

        return open_repository(self.store or "", self.repository)

    def address(self) -> str:
        """Returns the URL of the server, or that of the store without its password."""
        return self.url or str(parse_store_url(self.store or ""))


def find_target(url: str | None, store: str | None, repository: str) -> Target:
    """Returns the catalog for the options of a command; the module's docstring has the order."""
    if url is not None or store is not None:
        return Target(url=url, store=store, repository=repository)
    running = find_server()
    if running is not None:
        return Target(url=running.url, repository=repository)
    if not DEFAULT_STORE.exists():
        try:
            DATA_DIRECTORY.mkdir(exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"no server runs in this directory, and no store can be created in "
                f"{DATA_DIRECTORY}: {error.strerror}; name one with --url or --store"
            ) from None
        click.echo(f"creating a new store in {DEFAULT_STORE}", err=True)
    return Target(store=f"rocksdb:{DEFAULT_STORE}", repository=repository)


def find_server() -> ServerFile | None:
    """Returns the server that runs in this directory; ignores the file of one that has ended."""
    return read_server_file(DATA_DIRECTORY / SERVER_FILE)


class CommandContext:
    """One run of one command: its catalog, opened on first use, and its printer."""

    def __init__(self, ctx: click.Context, target: Target, as_json: bool) -> None:
        self._ctx = ctx
        self.target = target
        self.printer = Printer(as_json)

    @functools.cached_property
    def catalog(self) -> Catalog:
        """The catalog that the options name; click closes it at the end of the command."""
        catalog = self.target.open()
        self._ctx.call_on_close(catalog.close)
        return catalog


def catalog_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that name a catalog; passes a `CommandContext` as the first argument."""

    @click.option("--url", envvar="LOCHAN_URL", metavar="URL", help="The server to connect to.")
    @click.option(
        "--store", envvar="LOCHAN_STORE", metavar="URL", help="The store to open, without a server."
    )
    @click.option(
        "--repository",
        envvar="LOCHAN_REPOSITORY",
        default="default",
        show_default=True,
        help="The name of the repository.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON: one line for each item.")
    @click.pass_context
    @functools.wraps(function)
    def command(
        ctx: click.Context,
        /,
        url: str | None,
        store: str | None,
        repository: str,
        as_json: bool,
        **arguments: Any,
    ) -> None:
        # An option wins over the environment; a variable never conflicts with a typed option.
        typed = {
            name
            for name in ("url", "store")
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        if typed == {"url", "store"}:
            raise click.UsageError("--url and --store were both given; give only one of them")
        if "store" in typed:
            url = None
        elif url is not None:
            store = None
        ctx.meta["lochan.json"] = as_json
        target = find_target(url, store, repository)
        function(CommandContext(ctx, target, as_json), **arguments)

    return command
