"""The places for the bytes of files, opened by the URLs of repositories and kept open.

A repository without a URL has its default place below the data directory: `objects/<instance id>`.
So has one whose URL begins with `local:`, the form in which lakeFS clients name the server's disk.
A URL of a directory is accepted only below the data directory, or where the operator allows it: a
caller that may create repositories is not thereby allowed to write everywhere on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final
from urllib.parse import unquote

from lochan.assembly.blocks import open_blocks
from lochan.assembly.server_file import server_file
from lochan.base.errors import Denied, Invalid
from lochan.base.ids import InstanceId
from lochan.kv.url import parse_store_url
from lochan.service.file_places import FileSupport
from lochan.staging.block_store import BlockStore

_SQLITE: Final = "sqlite"
_DIRECTORY: Final = "file"
_OBJECTS: Final = "objects"
_SERVER: Final = "local"


def data_directory(store_url: str, data: str = "") -> Path | None:
    """Returns where a server keeps what is not in its store: as set, else beside its store."""
    if data:
        return Path(data)
    url = parse_store_url(store_url)
    if url.scheme == _SQLITE:
        return Path(url.rest.partition("?")[0].removeprefix("//")).parent
    beside = server_file(store_url)
    return None if beside is None else beside.parent


def place_below(url: str, name: str) -> str:
    """Returns the URL of the place of a repository below that of a server."""
    place, question, parameters = url.partition("?")
    return f"{place.rstrip('/')}/{name}{question}{parameters}"


class Places:
    """All open places of one process; for any number of threads."""

    def __init__(
        self,
        root: Path | None,
        *,
        imports: Sequence[str] = (),
        directories: Sequence[str] = (),
    ) -> None:
        self._root = root
        self._imports = tuple(imports)
        self._directories = tuple(Path(one).resolve() for one in directories)
        self._lock = Lock()
        self._opened: dict[str, BlockStore] = {}

    def support(self) -> FileSupport:
        """Returns what repositories need of this."""
        return FileSupport(self.open, Lock)

    def open(self, url: str, instance: InstanceId) -> BlockStore:
        """Returns the place of a URL; without one, the default place of a repository."""
        if _is_default(url):
            address = f"{_DIRECTORY}:{self._default(instance)}"
        else:
            address = url
            self._check(url)
        with self._lock:
            found = self._opened.get(address)
            if found is None:
                scheme = parse_store_url(address).scheme
                imports = [one for one in self._imports if parse_store_url(one).scheme == scheme]
                found = self._opened[address] = open_blocks(address, imports=imports)
            return found

    def close(self) -> None:
        """Closes all places."""
        with self._lock:
            opened, self._opened = self._opened, {}
        for place in opened.values():
            place.close()

    def _default(self, instance: InstanceId) -> Path:
        if self._root is None:
            raise Invalid(
                "this store has no directory beside it; set a data directory, or create the "
                "repository with a storage place"
            )
        objects = self._root / _OBJECTS
        objects.mkdir(parents=True, exist_ok=True)
        _flush_directory(self._root)
        return objects / instance.hex()

    def _check(self, url: str) -> None:
        parsed = parse_store_url(url)
        if parsed.scheme != _DIRECTORY:
            return
        wanted = Path(unquote(parsed.rest.removeprefix("//"))).resolve()
        roots = list(self._directories)
        if self._root is not None:
            roots.append(self._root.resolve())
        if not any(wanted.is_relative_to(root) for root in roots):
            raise Denied("a storage place is below the data directory of the server")


class TemporaryPlaces(Places):
    """Places below a directory that exists as long as they are open: for stores in memory."""

    def __init__(self, *, imports: Sequence[str] = (), directories: Sequence[str] = ()) -> None:
        # Made when it is first used, because most stores in memory have no large files.
        super().__init__(None, imports=imports, directories=directories)
        self._directory: TemporaryDirectory[str] | None = None

    def open(self, url: str, instance: InstanceId) -> BlockStore:
        """Returns the place of a URL; without one, a place that is removed by `close`."""
        with self._lock:
            if _is_default(url) and self._root is None:
                self._directory = TemporaryDirectory(prefix="lochan-")
                self._root = Path(self._directory.name)
        return super().open(url, instance)

    def close(self) -> None:
        """Closes all places and removes the directory."""
        super().close()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None


def _is_default(url: str) -> bool:
    """Returns whether a URL leaves the place to the server."""
    return not url or parse_store_url(url).scheme == _SERVER


def _flush_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
