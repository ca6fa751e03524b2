"""The places for the bytes of files, opened by the URLs of repositories and kept open.

A repository without a URL has its default place below the data directory: `objects/<instance id>`.
So has one whose URL begins with `local:`, the form in which lakeFS clients name the server's disk.
On a server a URL has to be below the data directory or below a place that the operator allows: a
caller that may create repositories must not thereby write everywhere on the machine, have requests
sent to addresses of its choice, or use the server's credentials for other buckets. Parameters, such
as an endpoint, are those of the allowed place. A program that opens a store by itself uses its own
credentials, so it is free but for directories, which it names.
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
from lochan.kv.url import StoreUrl, parse_store_url
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
        allowed: Sequence[str] = (),
        elsewhere: bool = False,
    ) -> None:
        """`allowed` are places for repositories; `elsewhere` adds all that are no directory."""
        self._root = root
        self._imports = tuple(imports)
        self._allowed = tuple(allowed)
        self._elsewhere = elsewhere
        self._lock = Lock()
        self._opened: dict[str, BlockStore] = {}

    def support(self) -> FileSupport:
        """Returns what repositories need of this."""
        return FileSupport(self.open, Lock, self.check)

    def open(self, url: str, instance: InstanceId) -> BlockStore:
        """Returns the place of a URL; without one, the default place of a repository."""
        if _is_default(url):
            address = f"{_DIRECTORY}:{self._default(instance)}"
        else:
            address = self._permitted(url)
        with self._lock:
            found = self._opened.get(address)
            if found is None:
                scheme = parse_store_url(address).scheme
                imports = [one for one in self._imports if parse_store_url(one).scheme == scheme]
                found = self._opened[address] = open_blocks(address, imports=imports)
            return found

    def check(self, url: str) -> None:
        """Refuses the URL of a place that no repository may have here: Denied or Invalid."""
        if not _is_default(url):
            self._permitted(url)

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

    def _permitted(self, url: str) -> str:
        """Returns the URL with the parameters that count; Denied if it is not below a place."""
        parsed = parse_store_url(url)
        allowed = [parse_store_url(one) for one in self._allowed]
        if parsed.scheme == _DIRECTORY:
            roots = [_directory(one) for one in allowed if one.scheme == _DIRECTORY]
            if self._root is not None:
                roots.append(self._root.resolve())
            if any(_directory(parsed).is_relative_to(root) for root in roots):
                return url
        elif self._elsewhere:
            return url
        else:
            for one in allowed:
                if one.scheme == parsed.scheme and _is_below(parsed.rest, one.rest):
                    return f"{url.partition('?')[0]}{''.join(one.rest.partition('?')[1:])}"
        raise Denied(
            "a storage place is below the data directory of the server, or below a place that its "
            "operator allows for repositories"
        )


class TemporaryPlaces(Places):
    """Places below a directory that exists as long as they are open: for stores in memory."""

    def __init__(
        self,
        *,
        imports: Sequence[str] = (),
        allowed: Sequence[str] = (),
        elsewhere: bool = False,
    ) -> None:
        # Made when it is first used, because most stores in memory have no large files.
        super().__init__(None, imports=imports, allowed=allowed, elsewhere=elsewhere)
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


def _directory(url: StoreUrl) -> Path:
    return Path(unquote(url.rest.removeprefix("//"))).resolve()


def _is_below(wanted: str, allowed: str) -> bool:
    """Returns whether a place is below another one, or that one, and names no other parameters."""
    path, _, given = wanted.partition("?")
    root, _, parameters = allowed.partition("?")
    names, above = (unquote(one).strip("/").split("/") for one in (path, root))
    if {"", ".", ".."} & set(names):
        return False
    return names[: len(above)] == above and given in ("", parameters)


def _flush_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
