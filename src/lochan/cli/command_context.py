"""What every command that meets a catalog takes: which catalog, and how to print.

A catalog is a server (`--url`) or a store opened in this process (`--store`). With neither it is
the server that runs in this directory, told by `.lochan/server.json`, else the store under
`.lochan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click
from click.core import ParameterSource

from lochan.cli.printing import Printer
from lochan.cli.target import Target, find_target

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.embedded import Embedded

    Catalog = Client | Embedded

_GIVEN: Final = (ParameterSource.COMMANDLINE,)


class CommandContext:
    """One run of one command: opens its catalog when it is first asked for."""

    def __init__(self, target: Target, as_json: bool) -> None:
        self.target = target
        self.printer = Printer(as_json)
        self._opened = ExitStack()
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The catalog that is meant."""
        if self._catalog is None:
            opened = self.target.open()
            self._opened.callback(opened.close)
            self._catalog = opened
        return self._catalog

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()


def errand(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of its catalog, and hands it an `CommandContext` first."""

    @click.option("--url", envvar="LOCHAN_URL", metavar="URL", help="The server to talk to.")
    @click.option(
        "--store", envvar="LOCHAN_STORE", metavar="URL", help="The store to open, without a server."
    )
    @click.option(
        "--repository",
        envvar="LOCHAN_REPOSITORY",
        default="default",
        show_default=True,
        help="The repository that is meant.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON: one line for each item.")
    @click.pass_context
    @functools.wraps(function)
    def with_errand(
        ctx: click.Context,
        /,
        url: str | None,
        store: str | None,
        repository: str,
        as_json: bool,
        **given: Any,
    ) -> None:
        # Options win over the environment, so a variable never stands against what was typed.
        typed = {name for name in ("url", "store") if ctx.get_parameter_source(name) in _GIVEN}
        if typed == {"url", "store"}:
            raise click.UsageError("name a server (--url) or a store (--store), not both")
        if "store" in typed:
            url = None
        elif url is not None:
            store = None
        ctx.meta["lochan.json"] = as_json
        with CommandContext(find_target(url, store, repository), as_json) as opened:
            function(opened, **given)

    return with_errand
