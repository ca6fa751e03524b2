"""The catalog that a command works on, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from lochan.base.errors import Unavailable
from lochan.http.server_file import SERVER_FILE, ServerFile, read_server_file
from lochan.kv.url import parse_store_url

if TYPE_CHECKING:
    from lochan.client import Client
    from lochan.embedded import Embedded

DATA_DIRECTORY: Final = Path(".lochan")
DEFAULT_STORE: Final = DATA_DIRECTORY / "store"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A repository: on a server, or in a store that this process opens."""

    url: str | None = None
    store: str | None = None
    repository: str = "default"

    def open(self) -> Client | Embedded:
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
    """Returns the catalog for the options of a command; `command_context` has the order."""
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
