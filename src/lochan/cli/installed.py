"""Which stores are installed, told from package metadata.

A store belongs to whoever declares an entry point for it; this room names no store itself.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import msgspec

from lochan.assembly import STORE_GROUP


class InstalledStore(msgspec.Struct, frozen=True):
    """One kind of store: its URL scheme, the package that brings it, and whether it can be used."""

    scheme: str
    package: str
    ready: bool
    state: str


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
