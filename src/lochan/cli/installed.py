"""Which stores are installed, told from package metadata.

A store belongs to whoever declares an entry point for it; this room names no store itself.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click
import msgspec

from lochan.assembly import STORE_GROUP
from lochan.base.errors import NotFound


class InstalledStore(msgspec.Struct, frozen=True):
    """One kind of store: its URL scheme, the package that brings it, and whether it can be used."""

    scheme: str
    package: str
    ready: bool
    state: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def stores(as_json: bool) -> None:
    """List the kinds of store that are installed."""
    found = find_installed_stores()
    if not found:
        raise NotFound("no store is installed; reinstall lochan")
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    width = max(len(store.scheme) for store in found)
    for store in found:
        click.echo(f"{store.scheme + ':':<{width + 1}}  {store.state}  ({store.package})")


def find_installed_stores() -> list[InstalledStore]:
    """Returns all declared stores, ordered by scheme; a broken one is listed, not hidden."""
    declared = entry_points(group=STORE_GROUP)
    return [_inspect(point) for point in sorted(declared, key=lambda point: point.name)]


def _inspect(point: EntryPoint) -> InstalledStore:
    package = point.dist.name if point.dist is not None else "unknown package"
    try:
        point.load()
    except ImportError as error:
        return InstalledStore(point.name, package, False, f"not usable: {error}")
    return InstalledStore(point.name, package, True, "ready")
