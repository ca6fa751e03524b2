"""The places of all repositories of a process: where the bytes of their files are.

Each repository has a place of its own, named by its instance: below the place that its description
names, or below the default place. So two repositories never share blocks, whatever their settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from lochan.assembly.blocks import open_blocks
from lochan.assembly.server_file import server_file
from lochan.base.errors import Invalid
from lochan.base.ids import InstanceId
from lochan.staging.block_store import BlockStore

OBJECTS: Final = "objects"
"""The folder of the bytes of files, beside that of the store."""


class Places:
    """Opens places, each once; `close` closes them all."""

    def __init__(self, default: str, imports: Sequence[str] = ()) -> None:
        self._default = default
        self._imports = tuple(imports)
        self._lock = Lock()
        self._opened: dict[tuple[str, InstanceId], BlockStore] = {}

    def __call__(self, url: str, instance: InstanceId) -> BlockStore:
        """Returns the open place of a repository; without a URL that below the default place."""
        base = url or self._default
        if not base:
            raise Invalid(
                "this server has no place for the bytes of files, only for those of a few KB: "
                "set file_place, or data"
            )
        with self._lock:
            found = self._opened.get((base, instance))
            if found is None:
                found = open_blocks(below(base, instance.hex()), imports=self._imports)
                self._opened[base, instance] = found
            return found

    def close(self) -> None:
        """Closes all places."""
        with self._lock:
            for place in self._opened.values():
                place.close()
            self._opened.clear()


def below(base: str, name: str) -> str:
    """Returns the URL of a place below another; options after `?` stay at the end."""
    address, mark, options = base.partition("?")
    return f"{address.removesuffix('/')}/{name}{mark}{options}"


def default_place(store_url: str, data: str = "") -> str:
    """Returns the place of a process that names none: below `data`, or beside an embedded store.

    Empty if there is neither: a store on the network or in memory has no folder beside it.
    """
    if data:
        return f"file:{Path(data) / OBJECTS}"
    beside = server_file(store_url)
    return "" if beside is None else f"file:{beside.with_name(OBJECTS)}"
