"""The server of a lake: one that runs already, or one that is started here for an embedded store.

Executors are other processes and cannot open a store that one process owns, so for a store address
a server runs as a child on loopback as long as the lake is open. If another server has the store
already, that one is used.

The child ends by `close`, at the end of this interpreter, or, should this process be killed, when
the pipe breaks that it listens to.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Final

import msgspec

from lochan.base.errors import InvalidUrl, StoreLocked, Unavailable
from lochan.base.pipeline_limits import (
    SERVER_READY_S,
    SERVER_STOP_S,
)
from lochan.spark.access import check_address

_NOTE: Final = "server.json"
_SERVERS: Final = ("http://", "https://")

# Nobody writes to the standard input of the child; its end means that this process is gone.
_CHILD: Final = """
import os, signal, sys, threading
def watch():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from lochan.cli.main import main
main()
"""


class Service:
    """A server that a lake speaks to; `close` ends it only if it was started here."""

    def __init__(self, url: str, child: subprocess.Popen[str] | None = None) -> None:
        self.url: Final = url
        self._child = child
        if child is not None:
            atexit.register(self.close)

    @property
    def pid(self) -> int | None:
        """The process that was started here, None if there is none."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """Stops the server if it is ours, and waits for its end; may be called again."""
        child, self._child = self._child, None
        if child is not None:
            atexit.unregister(self.close)
            _stop(child)


class _Server(msgspec.Struct, frozen=True):
    """What a server prints when requests may be sent, and leaves beside an embedded store."""

    url: str
    pid: int = 0


def open_service(address: str, repository: str = "default") -> Service:
    """Returns the server of an address; starts one if the address is that of a store."""
    if address.startswith(_SERVERS):
        return Service(check_address(address))
    if ":" not in address:
        raise InvalidUrl(
            f"not an address: {address!r}; write http://host:port for a server, or "
            "rocksdb:PATH for a store"
        )
    return _start(address, repository)


def _start(store: str, repository: str) -> Service:
    command = [sys.executable, "-c", _CHILD, "serve", "--json", "--host", "127.0.0.1"]
    command += ["--port", "0", "--repository", repository]
    # What it says is kept in a file: nobody would empty a pipe, and a full one stops the server.
    with tempfile.TemporaryFile("w+", encoding="utf-8", prefix="lochan-serve-") as errors:
        child = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Ctrl-C is meant for a cell of a notebook, not for its server.
            start_new_session=True,
            # By the environment, because arguments are shown to everybody on the machine.
            env={**os.environ, "LOCHAN_STORE": store},
        )
        try:
            line = _first_line(child)
        except BaseException:
            _stop(child)
            raise
        if line:
            return Service(msgspec.json.decode(line, type=_Server).url, child)
        _stop(child)
        said = _said(errors)
    return _find_running(store, said)


def _first_line(child: subprocess.Popen[str]) -> str:
    """Returns what a child says first; '' if it ends without a word or takes too long."""
    patience = threading.Timer(SERVER_READY_S, child.kill)
    patience.start()
    try:
        return child.stdout.readline() if child.stdout is not None else ""
    finally:
        patience.cancel()


def _stop(child: subprocess.Popen[str]) -> None:
    """Asks a child to end, and ends it if it does not."""
    child.terminate()
    try:
        child.wait(SERVER_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _said(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return "; ".join(told or lines[-1:])


def _find_running(store: str, said: str) -> Service:
    """Returns the server that has the store, if the one that could not start named it."""
    note = _read_note(store)
    if note is not None and note.url in said:
        if _has_open(note.pid, _path(store)):
            return Service(note.url)
        raise StoreLocked(
            f"another process has the store, and {note.url}, whose note lies beside it, "
            "serves another one"
        )
    if "already open" in said:
        raise StoreLocked(f"{said}; name its server (http://…) instead of the store")
    raise Unavailable(f"no server could be started: {said or 'it ended without a word'}")


def _path(store: str) -> Path:
    return Path(store.partition(":")[2].partition("?")[0].removeprefix("//")).resolve()


def _read_note(store: str) -> _Server | None:
    if not store.startswith("rocksdb:"):
        return None
    try:
        return msgspec.json.decode((_path(store).parent / _NOTE).read_bytes(), type=_Server)
    except (OSError, msgspec.DecodeError):
        return None


def _has_open(pid: int, folder: Path) -> bool:
    """Tells whether a process has files of a directory open; True where no system tells.

    Stores that lie side by side share one note, so the note alone may name the wrong server.
    """
    descriptors = Path("/proc") / str(pid) / "fd"
    try:
        links = [each.readlink() for each in descriptors.iterdir()]
    except OSError:
        return True
    return any(link.is_relative_to(folder) for link in links)
