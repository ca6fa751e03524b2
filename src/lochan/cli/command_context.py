"""The options that commands on a catalog share, and the context that such a command gets.

A catalog is a server (`--url`) or a store that this process opens (`--store`). If neither is given,
it is the server that runs in this directory, according to `.lochan/server.json`, or else the store
under `.lochan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lochan.cli.output import Printer
from lochan.cli.target import Target, find_target

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.embedded import Embedded

    Catalog = Client | Embedded


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
