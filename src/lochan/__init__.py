"""Lochan: Git for the lakehouse, one versioned repository for tables and files.

This is the front hall: it names the version, and shows the way to the library's three doors. They
are loaded when they are used, so that importing any one room never loads another.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lochan.client import AsyncClient, Client
    from lochan.embedded import open_repository

__all__ = ["AsyncClient", "Client", "__version__", "open_repository"]

__version__ = "0.1.0"

_DOORS: Final = {
    "AsyncClient": "lochan.client",
    "Client": "lochan.client",
    "open_repository": "lochan.embedded",
}


def __getattr__(name: str) -> Any:
    """Returns what is behind a door."""
    if name not in _DOORS:
        raise AttributeError(f"module 'lochan' has no attribute {name!r}")
    return getattr(import_module(_DOORS[name]), name)
