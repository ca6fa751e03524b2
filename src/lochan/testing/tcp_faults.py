"""A proxy on this machine that cuts, swallows or keeps back bytes at a chosen place.

It stands between a driver and a real server, so that a connection can end at any byte of any
exchange. Bytes are counted from the moment a fault is planned; a fault happens once, afterwards
everything passes. Nothing here measures time: what is kept back waits for `release`.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from enum import Enum
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Final

_CHUNK_BYTES: Final = 65_536


class Way(Enum):
    """Which of the two streams."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class Mishap(Enum):
    """What happens at the chosen place."""

    NOTHING = "everything passes"
    CUT = "both ends see the connection close"
    SWALLOW = "bytes vanish, the connection stays"
    KEEP_BACK = "bytes wait until they are released"


class FaultyWire:
    """Listens on a port of its own and forwards to the server's; `with` closes it."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._changed = Condition()
        self._passed = dict.fromkeys(Way, 0)
        self._mishap = Mishap.NOTHING
        self._way = Way.TO_SERVER
        self._after = 0
        self._sockets: set[socket.socket] = set()
        self.happened = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def plan(self, mishap: Mishap, way: Way, after: int) -> None:
        """Plans a mishap for the moment when so many bytes have passed that way; counts anew."""
        with self._changed:
            self._passed = dict.fromkeys(Way, 0)
            self._mishap, self._way, self._after = mishap, way, after
            self.happened.clear()

    def passed(self, way: Way) -> int:
        """Returns how many bytes have gone that way since the last plan."""
        with self._changed:
            return self._passed[way]

    def release(self) -> None:
        """Plans nothing more, and lets go what was kept back."""
        with self._changed:
            self._mishap = Mishap.NOTHING
            self._changed.notify_all()

    def cut_now(self) -> None:
        """Ends every connection where it is."""
        with self._changed:
            ends = list(self._sockets)
        _end(*ends)

    def __enter__(self) -> FaultyWire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        with self._changed:
            ends = [self._listener, *self._sockets]
        _end(*ends)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            # Small pieces must leave at once, or a cut would come before what precedes it.
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._sockets |= {client, server}
            Thread(target=self._pump, args=(client, server, Way.TO_SERVER), daemon=True).start()
            Thread(target=self._pump, args=(server, client, Way.TO_CLIENT), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        swallowing = False
        with suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                if swallowing:
                    continue
                allowed, mishap = self._allow(way, len(chunk))
                if allowed:
                    target.sendall(chunk[:allowed])
                if mishap is Mishap.CUT:
                    self.happened.set()
                    break
                if mishap is Mishap.SWALLOW:
                    swallowing = True
                    self.happened.set()
                elif mishap is Mishap.KEEP_BACK:
                    self.happened.set()
                    self._wait_for_release()
                    target.sendall(chunk[allowed:])
        _end(source, target)
        with self._changed:
            self._sockets.discard(source)
        source.close()

    def _allow(self, way: Way, wanted: int) -> tuple[int, Mishap]:
        """Returns how many of the bytes may pass, and what then happens."""
        with self._changed:
            left = self._after - self._passed[way]
            if self._mishap is Mishap.NOTHING or way is not self._way or wanted < left:
                self._passed[way] += wanted
                return wanted, Mishap.NOTHING
            self._passed[way] += left
            mishap = self._mishap
            if mishap is not Mishap.KEEP_BACK:
                self._mishap = Mishap.NOTHING
            return left, mishap

    def _wait_for_release(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._mishap is not Mishap.KEEP_BACK)


def _end(*ends: socket.socket) -> None:
    """Ends both streams of each; whoever waits on one wakes up."""
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
