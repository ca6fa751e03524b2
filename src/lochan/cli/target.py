"""Which catalog a command means, and how to open it."""

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
    """A repository: on a server, or in a store that is opened here."""

    url: str | None = None
    store: str | None = None
    repository: str = "default"

    def open(self) -> Client | Embedded:
        """Opens it; use as a context manager."""
        if self.url is not None:
            from lochan.client import Client

            return Client(self.url, self.repository)
        from lochan.embedded import open_repository

        return open_repository(self.store or "", self.repository)

    def shown_store(self) -> str:
        """Returns the store's address without a password."""
        return str(parse_store_url(self.store or ""))


def find_target(url: str | None, store: str | None, repository: str) -> Target:
    """Returns what is meant; see the order in `errand`."""
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
                f"no server runs here, and no store can be made in {DATA_DIRECTORY}: "
                f"{error.strerror}"
            ) from None
        click.echo(f"a new store is made in {DEFAULT_STORE}", err=True)
    return Target(store=f"rocksdb:{DEFAULT_STORE}", repository=repository)


def find_server() -> ServerFile | None:
    """Returns the server that runs in this directory; what a dead one left is not one."""
    return read_server_file(DATA_DIRECTORY / SERVER_FILE)
