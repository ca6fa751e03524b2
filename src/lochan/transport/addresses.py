"""Where a server listens: addresses of this machine, and sockets in the file system."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from pathlib import Path
from typing import Final

from lochan.base.errors import Invalid, Unavailable
from lochan.base.limits.server import LISTEN_BACKLOG

_OWNER_ONLY: Final = 0o600


def is_loopback(host: str) -> bool:
    """Returns whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_any_address(host: str) -> bool:
    """Returns whether it stands for all addresses of this machine: `0.0.0.0` or `::`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def check_loopback(host: str) -> None:
    """Refuses an address that other machines could reach."""
    if not is_loopback(host):
        raise Invalid(
            f"cannot serve on {host!r}: without authentication only this machine is served; "
            "use 127.0.0.1, ::1 or localhost"
        )


def bind_port(host: str, port: int) -> socket.socket:
    """Listens on a port; 0 takes a free one."""
    address = "127.0.0.1" if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        bound = socket.create_server((address, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror}; "
            "stop the process that has that port, or choose another port"
        ) from error
    # Accepted connections inherit it: a body that follows its head in a write of its own would
    # otherwise wait for the client to confirm the head, 40 ms on Linux.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound.setblocking(False)
    return bound


class UnixSocketFile:
    """The file of a Unix socket: made for its owner only, removed by the server that made it."""

    def __init__(self, path: str) -> None:
        # A server that changes its directory must still find the file.
        self.path = Path(path).absolute()
        self._identity: tuple[int, int] | None = None

    def bind(self) -> socket.socket:
        """Listens; replaces the file of a server that has died, and refuses that of a live one.

        1. Remove a stale file; 2. make the file; 3. restrict it; 4. listen. No client can connect
        before 4, and a file that is left by a crash in between is stale.
        """
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_stale()
            bound.bind(str(self.path))
            self._identity = _identity(self.path)
            self.path.chmod(_OWNER_ONLY)
            bound.listen(LISTEN_BACKLOG)
        except OSError as error:
            bound.close()
            self.remove()
            raise Unavailable(
                f"cannot listen on the Unix socket {self.path}: {error.strerror or error}; "
                "choose a short path in a directory that the server may write to"
            ) from error
        except Unavailable:
            bound.close()
            raise
        bound.setblocking(False)
        return bound

    def remove(self) -> None:
        """Removes the file if it is still the one that was made here."""
        if self._identity is not None and _identity(self.path) == self._identity:
            self.path.unlink(missing_ok=True)
        self._identity = None

    def _remove_stale(self) -> None:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise Unavailable(
                f"cannot listen on {self.path}: it exists and is no socket; choose another path"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            # A server whose queue is full is alive too, and is not waited for.
            probe.setblocking(False)
            if probe.connect_ex(str(self.path)) != errno.ECONNREFUSED:
                raise Unavailable(
                    f"cannot listen on the Unix socket {self.path}: a server listens there "
                    "already; stop it, or choose another path"
                )
        self.path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
