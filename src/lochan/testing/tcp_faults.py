"""A TCP proxy on this machine that cuts a connection, or drops or delays bytes, at a chosen byte.

It is between a driver and a real server, so that a connection can end at any byte of any exchange.
Bytes are counted from the moment a fault is planned; a fault happens once, afterwards everything
passes. Delayed bytes wait for `release`, and dripping bytes come one by one until then.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from enum import Enum
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Final

_CHUNK_BYTES: Final = 65_536

# A socket that is closed with this option sends a reset instead of its end.
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


class Way(Enum):
    """The direction of a stream."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class WireFault(Enum):
    """What happens at the chosen byte."""

    NOTHING = "everything passes"
    CUT = "both ends see the connection close"
    DROP = "bytes are lost, the connection stays open"
    DELAY = "bytes wait until they are released"
    RESET = "both ends see the connection reset"
    DRIP = "bytes come one by one, with pauses, until they are released"


class FaultyWire:
    """Listens on a port of its own and forwards to the server's; `with` closes it."""

    def __init__(self, server_port: int, pause_s: float = 0.0) -> None:
        self._server_port = server_port
        self._pause_s = pause_s
        self._resets: set[socket.socket] = set()
        self._changed = Condition()
        self._passed = dict.fromkeys(Way, 0)
        self._fault = WireFault.NOTHING
        self._way = Way.TO_SERVER
        self._after = 0
        self._sockets: set[socket.socket] = set()
        self.happened = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def plan(self, fault: WireFault, way: Way, after: int) -> None:
        """Plans a fault after `after` further bytes in that direction; restarts the counts."""
        with self._changed:
            self._passed = dict.fromkeys(Way, 0)
            self._fault, self._way, self._after = fault, way, after
            self.happened.clear()

    def passed(self, way: Way) -> int:
        """Returns the number of bytes in that direction since the last plan."""
        with self._changed:
            return self._passed[way]

    def release(self) -> None:
        """Cancels the plan and forwards delayed bytes."""
        with self._changed:
            self._fault = WireFault.NOTHING
            self._changed.notify_all()

    def cut_now(self) -> None:
        """Closes every connection at once."""
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
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                # A server that is down now may be started again.
                client.close()
                continue
            # Small pieces must be sent at once, or a cut would come before bytes that precede it.
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._sockets |= {client, server}
            Thread(target=self._pump, args=(client, server, Way.TO_SERVER), daemon=True).start()
            Thread(target=self._pump, args=(server, client, Way.TO_CLIENT), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        dropping = False
        with suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                if dropping:
                    continue
                allowed, fault = self._allow(way, len(chunk))
                if allowed:
                    target.sendall(chunk[:allowed])
                if fault is WireFault.CUT:
                    self.happened.set()
                    break
                if fault is WireFault.DROP:
                    dropping = True
                    self.happened.set()
                elif fault is WireFault.DELAY:
                    self.happened.set()
                    self._wait_for_release()
                    target.sendall(chunk[allowed:])
                elif fault is WireFault.DRIP:
                    self.happened.set()
                    self._drip(target, chunk[allowed:])
                elif fault is WireFault.RESET:
                    self._reset(source, target)
                    self.happened.set()
                    break
        with self._changed:
            reset = source in self._resets
            self._resets.discard(source)
            self._sockets.discard(source)
        if not reset:
            _end(source, target)
        source.close()

    def _reset(self, *ends: socket.socket) -> None:
        """Lets both threads of a connection close their sockets with a reset."""
        with self._changed:
            self._resets |= set(ends)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            # Wakes up the thread that reads from it, and sends nothing.
            end.shutdown(socket.SHUT_RD)

    def _drip(self, target: socket.socket, rest: bytes) -> None:
        for at in range(len(rest)):
            with self._changed:
                self._changed.wait_for(
                    lambda: self._fault is not WireFault.DRIP, timeout=self._pause_s
                )
            target.sendall(rest[at : at + 1])

    def _allow(self, way: Way, size: int) -> tuple[int, WireFault]:
        """Returns how many of the bytes to forward, and the fault that follows them."""
        with self._changed:
            left = self._after - self._passed[way]
            if self._fault is WireFault.NOTHING or way is not self._way or size < left:
                self._passed[way] += size
                return size, WireFault.NOTHING
            self._passed[way] += left
            fault = self._fault
            if fault not in (WireFault.DELAY, WireFault.DRIP):
                self._fault = WireFault.NOTHING
            return left, fault

    def _wait_for_release(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not WireFault.DELAY)


def _end(*ends: socket.socket) -> None:
    """Shuts down both streams of each socket, which wakes up the threads that wait on it."""
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
