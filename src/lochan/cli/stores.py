"""`lochan stores`: the kinds of store that are installed, according to package metadata.

A store is declared by an entry point of its package; this module names no store itself.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import click
import msgspec

from lochan.assembly import STORE_GROUP
from lochan.base.errors import NotFound


class InstalledStore(msgspec.Struct, frozen=True):
    """One kind of store: its URL scheme, its package, and whether it can be imported."""

    scheme: str
    package: str
    ready: bool
    state: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def stores(as_json: bool) -> None:
    """List the kinds of store that are installed."""
    declared = sorted(entry_points(group=STORE_GROUP), key=lambda point: point.name)
    if not declared:
        raise NotFound("no store is installed; install the package lochan again")
    # A store that cannot be imported is listed with the reason.
    installed = [_inspect(point) for point in declared]
    if as_json:
        click.echo(msgspec.json.encode(installed))
        return
    width = max(len(store.scheme) for store in installed)
    for store in installed:
        click.echo(f"{store.scheme + ':':<{width + 1}}  {store.state}  ({store.package})")


def _inspect(point: EntryPoint) -> InstalledStore:
    package = point.dist.name if point.dist is not None else "unknown package"
    try:
        point.load()
    except ImportError as error:
        return InstalledStore(point.name, package, False, f"not usable: {error}")
    return InstalledStore(point.name, package, True, "ready")
