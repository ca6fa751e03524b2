"""Lochan: Git for the lakehouse, one versioned repository for tables and files.

It has the version and the three entry points of the library. An entry point is imported when it is
used first, so that importing one package never imports another.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lochan.client import AsyncClient, Client
    from lochan.embedded import open_repository

__all__ = ["AsyncClient", "Client", "__version__", "open_repository"]

__version__ = "0.1.0"

_ENTRY_POINTS: Final = {
    "AsyncClient": "lochan.client",
    "Client": "lochan.client",
    "open_repository": "lochan.embedded",
}


def __getattr__(name: str) -> Any:
    """Imports an entry point and returns it."""
    if name not in _ENTRY_POINTS:
        raise AttributeError(f"module 'lochan' has no attribute {name!r}")
    return getattr(import_module(_ENTRY_POINTS[name]), name)
