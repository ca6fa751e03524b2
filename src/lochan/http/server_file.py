"""The note that a server leaves beside its embedded store, so that the command line finds it.

Only one process can own such a store, and the note is written by the owner: one that lies there
already was left by a process that died, and is replaced.
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
    """Returns where the note of an embedded store lies; None for stores that many may open."""
    url = parse_store_url(store)
    if url.scheme != "rocksdb":
        return None
    path = Path(url.rest.partition("?")[0].removeprefix("//"))
    return path.parent / SERVER_FILE


def announce(file: Path, url: str) -> ServerFile:
    """Writes the note, whole or not at all."""
    presence = ServerFile(url, os.getpid())
    unfinished = file.with_name(f"{file.name}.{presence.pid}")
    unfinished.write_bytes(msgspec.json.encode(presence) + b"\n")
    unfinished.replace(file)
    return presence


def find_presence(file: Path) -> ServerFile | None:
    """Returns who serves; None if nobody does, or if whoever left the note is gone."""
    try:
        presence = msgspec.json.decode(file.read_bytes(), type=ServerFile)
    except (OSError, msgspec.DecodeError):
        return None
    return presence if _is_alive(presence.pid) else None


def withdraw(file: Path, presence: ServerFile) -> None:
    """Removes the note if it is still ours."""
    if find_presence(file) == presence:
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
