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
from lochan.base.limits.audits import SERVER_READY_S, SERVER_STOP_S
from lochan.spark.access import check_address

_NOTE: Final = "server.json"
_SERVERS: Final = ("http://", "https://")

# Nothing is written to the standard input of the child; its end means that this process is gone.
_CHILD: Final = """
import os, signal, sys, threading
def watch():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
from lochan.cli.main import main
main()
"""


class LakeServer:
    """The server of a lake; `close` stops it only if it was started here."""

    def __init__(self, url: str, child: subprocess.Popen[str] | None = None) -> None:
        self.url: Final = url
        # The process that was started here, None if there is none.
        self.child = child
        if child is not None:
            atexit.register(self.close)

    def close(self) -> None:
        """Stops the server if it is ours, and waits for its end; may be called again."""
        child, self.child = self.child, None
        if child is not None:
            atexit.unregister(self.close)
            _stop(child)


class _Server(msgspec.Struct, frozen=True):
    """The line that a server prints when it is ready, and its file beside an embedded store."""

    url: str
    pid: int = 0


def open_server(address: str, repository: str = "default") -> LakeServer:
    """Returns the server of an address; starts one if the address is that of a store."""
    if address.startswith(_SERVERS):
        return LakeServer(check_address(address))
    if ":" not in address:
        raise InvalidUrl(
            f"not an address: {address!r}; write http://host:port for a server, or "
            "rocksdb:PATH for a store"
        )
    return _start(address, repository)


def _start(store: str, repository: str) -> LakeServer:
    command = [sys.executable, "-c", _CHILD, "serve", "--json", "--host", "127.0.0.1"]
    command += ["--port", "0", "--repository", repository]
    # Its errors go to a file: no thread would read a pipe, and a full one stops the server.
    with tempfile.TemporaryFile("w+", encoding="utf-8", prefix="lochan-serve-") as errors:
        child = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Ctrl-C is meant for a cell of a notebook, not for its server.
            start_new_session=True,
            # By the environment, because every user of the machine can see arguments.
            env={**os.environ, "LOCHAN_STORE": store},
        )
        try:
            line = _first_line(child)
        except BaseException:
            _stop(child)
            raise
        if line:
            return LakeServer(msgspec.json.decode(line, type=_Server).url, child)
        _stop(child)
        output = _error_output(errors)
    return _find_running(store, output)


def _first_line(child: subprocess.Popen[str]) -> str:
    """Returns the first line that a child prints; '' if it ends before or takes too long."""
    timer = threading.Timer(SERVER_READY_S, child.kill)
    timer.start()
    try:
        return child.stdout.readline() if child.stdout is not None else ""
    finally:
        timer.cancel()


def _stop(child: subprocess.Popen[str]) -> None:
    """Terminates a child, and kills it if it does not end in time."""
    child.terminate()
    try:
        child.wait(SERVER_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _error_output(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
    errors_reported = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return "; ".join(errors_reported or lines[-1:])


def _find_running(store: str, output: str) -> LakeServer:
    """Returns the running server of a store, if the error of the new one names it."""
    note = _read_note(store)
    if note is not None and note.url in output:
        if _has_open(note.pid, _path(store)):
            return LakeServer(note.url)
        raise StoreLocked(
            f"another process has the store open, and {note.url}, which the file beside it names, "
            "serves another store"
        )
    if "already open" in output:
        raise StoreLocked(f"{output}; name its server (http://…) instead of the store")
    raise Unavailable(f"no server could be started: {output or 'it ended without a message'}")


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
    """Returns whether a process has files of a directory open; True where that is unknown.

    Stores that lie side by side share one note, so the note alone may name the wrong server.
    """
    descriptors = Path("/proc") / str(pid) / "fd"
    try:
        links = [each.readlink() for each in descriptors.iterdir()]
    except OSError:
        return True
    return any(link.is_relative_to(folder) for link in links)
