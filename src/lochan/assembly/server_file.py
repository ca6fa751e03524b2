"""The file that a server writes beside its embedded store, so that the command line finds it.

Only one process can own such a store, and only the owner writes the file: one that exists already
was left by a process that died, and is replaced.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from lochan.kv.url import parse_store_url

SERVER_FILE: Final = "server.json"


class ServerFile(msgspec.Struct, frozen=True):
    """Which process serves, and where."""

    url: str
    pid: int


def server_file(store: str) -> Path | None:
    """Returns the path of the file; None for stores that several processes may open."""
    url = parse_store_url(store)
    if url.scheme != "rocksdb":
        return None
    path = Path(url.rest.partition("?")[0].removeprefix("//"))
    return path.parent / SERVER_FILE


def write_server_file(file: Path, url: str) -> ServerFile:
    """Writes the file, whole or not at all."""
    server = ServerFile(url, os.getpid())
    unfinished = file.with_name(f"{file.name}.{server.pid}")
    unfinished.write_bytes(msgspec.json.encode(server) + b"\n")
    unfinished.replace(file)
    return server


def read_server_file(file: Path) -> ServerFile | None:
    """Returns the server of a store; None if there is no file or its process has ended."""
    try:
        server = msgspec.json.decode(file.read_bytes(), type=ServerFile)
    except (OSError, msgspec.DecodeError):
        return None
    return server if _is_alive(server.pid) else None


def find_server_of(store: str) -> ServerFile | None:
    """Returns the server that has an embedded store open; None if there is none."""
    file = server_file(store)
    return None if file is None else read_server_file(file)


def remove_server_file(file: Path, server: ServerFile) -> None:
    """Removes the file if it is still ours."""
    if read_server_file(file) == server:
        file.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
