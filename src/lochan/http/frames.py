"""What the front and the server behind it say to each other, over a pair of sockets.

A frame is four bytes of length and one message. Whoever sends collects what one turn of the loop
brings and writes it at once: under load a system call carries dozens of requests.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from lochan.http.error_boundary import attempt
from lochan.process import Descriptor, after_fork

_LENGTH_BYTES: Final = 4

# Twice as many as messages: a system call is a tenth of what these cost the one who reads them.
_PARTS_MAX: Final = 16

_READ_BYTES: Final = 262_144
_BUFFER_BYTES: Final = 1_048_576


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """A request, whole and clean; `number` is the front's name for it."""

    number: int
    method: str
    path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    request_id: str
    content_encoding: bytes
    accept_encoding: bytes
    traceparent: bytes


class Cancel(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Nobody waits for the answer any more."""

    number: int


class GiveUp(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """The client has sent its last: what can still be taken back is."""

    number: int


class Count(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """How many clients are connected."""

    connections: int


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """The answer to a request; a long body follows as a frame of its own, which is not copied."""

    number: int
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    content_type: bytes
    body_follows: bool = False


class Begin(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """Everything is ready: listen."""


class End(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Accept nobody new, answer what is under way, and end."""

    drain_s: float


FromFront: TypeAlias = Ask | Cancel | GiveUp | Count
ToFront: TypeAlias = Answer | Begin | End

encode: Final = msgspec.msgpack.Encoder().encode
decode_from_front: Final = msgspec.msgpack.Decoder(FromFront).decode
decode_to_front: Final = msgspec.msgpack.Decoder(ToFront).decode


class Splitter:
    """Cuts what was received into frames; keeps the beginning of one that is not whole yet."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._wanted_bytes = 0

    def feed(self, data: bytes) -> list[memoryview]:
        """Returns the frames that are whole now, in order."""
        if self._kept:
            self._kept += data
            if len(self._kept) < self._wanted_bytes:
                return []
            data = bytes(self._kept)
            self._kept.clear()
        view = memoryview(data)
        frames = []
        at, end = 0, len(data)
        self._wanted_bytes = _LENGTH_BYTES
        while end - at >= _LENGTH_BYTES:
            begin = at + _LENGTH_BYTES
            length = int.from_bytes(data[at:begin], "big")
            if end - begin < length:
                self._wanted_bytes = _LENGTH_BYTES + length
                break
            at = begin + length
            frames.append(view[begin:at])
        self._kept += view[at:]
        return frames


class Joint:
    """One end of the pair of sockets.

    What is to be sent is collected, and sent when there is some of it, at the latest when the turn
    of the loop ends: a system call for each message would cost too much, and one at the end only
    would keep the other side waiting while this one works. A transport of the loop does the latter,
    so the socket is used by hand.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        joined: socket.socket,
        received: Callable[[memoryview], None],
        lost: Callable[[], None],
    ) -> None:
        joined.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            joined.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._loop = loop
        self._socket = joined
        self._received = received
        self._lost = lost
        self._splitter = Splitter()
        self._context: list[bytes] = []
        self._unsent: deque[memoryview] = deque()
        self._scheduled = False
        self._closed = False
        loop.add_reader(joined, self._read)
        self._descriptor = Descriptor(joined.fileno())
        # A child that kept the socket would keep the other side from noticing that this one ends.
        after_fork(self, Joint._forked)

    def _forked(self) -> None:
        self._descriptor.abandon()

    def put(self, message: FromFront | ToFront, body: bytes | None = None) -> None:
        """Sends a message soon, after those before it; and a long body behind it."""
        data = encode(message)
        self._context.append(len(data).to_bytes(_LENGTH_BYTES, "big"))
        self._context.append(data)
        if body is not None:
            self._context.append(len(body).to_bytes(_LENGTH_BYTES, "big"))
            self._send(body)
        elif len(self._context) >= _PARTS_MAX:
            self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end_turn)

    def close(self) -> None:
        """Sends what can be sent at once, and closes; nobody is told."""
        if self._context:
            self._send()
        self._shut()

    def _shut(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    def _end_turn(self) -> None:
        self._scheduled = False
        if self._context:
            self._send()

    def _send(self, body: bytes | None = None) -> None:
        if self._closed:
            return
        waits = bool(self._unsent)
        self._unsent.append(memoryview(b"".join(self._context)))
        self._context.clear()
        if body is not None:
            self._unsent.append(memoryview(body))
        if not waits:
            self._write()

    def _write(self) -> None:
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._socket.send(data[:_READ_BYTES])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self._end()
                return
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = data[sent:]
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        for frame in self._splitter.feed(data):
            # A fault with one of them must not lose those behind it.
            attempt(self._received, frame)

    def _end(self) -> None:
        if not self._closed:
            self._shut()
            self._lost()
