"""Bytes of files that go out: opened and read in threads, sent as the client takes them.

What is sent is decided on the file that is opened: one that is replaced between two looks at it is
looked at again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from threading import Lock
from typing import Final

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import Bug, Conflict, LochanError, RangeNotSatisfiable
from lochan.faces.calls import read_call
from lochan.model.files import WHOLE_FILE, ByteRange, FileInfo, FileStream
from lochan.model.specs import ReferenceSpec
from lochan.transport.body_streams import ResponseStream
from lochan.transport.conditions import ByteSelection
from lochan.transport.exchange import Exchange

_NO_PARTS: Final[tuple[bytes, ...]] = ()

# How often a file may be replaced between two looks at it.
_LOOKS_MAX: Final = 4

Choose = Callable[[FileInfo], ByteSelection]
"""Returns which bytes of a file a request wants; raises if it may not have any."""


_OpenStream = Callable[[Call, ReferenceSpec, str, ByteRange], FileStream | None]


class UnsentFile(msgspec.Struct, frozen=True):
    """A file of which the client wants no bytes, because it has them."""

    info: FileInfo
    chosen: ByteSelection


class FileToSend(msgspec.Struct, frozen=True):
    """A file that is open, its first piece, and which bytes of it are sent."""

    stream: FileStream
    first: bytes
    chosen: ByteSelection

    def body(self, exchange: Exchange) -> ResponseStream:
        """Returns the bytes as the body of an answer."""
        reader = StreamReader(self.stream)
        parts = read_parts(exchange, reader, self.first)
        return ResponseStream(parts, self.chosen.length, closed=reader.close)


def open_file(
    exchange: Exchange, spec: ReferenceSpec, path: str, choose: Choose
) -> FileToSend | UnsentFile:
    """Opens what is to be sent, and reads its first piece in the same call."""
    opened = _open(exchange, exchange.repository.files.open, spec, path, choose)
    if opened is None:
        raise Bug("a file that is there is opened")
    return opened


def open_stored_file(
    exchange: Exchange, spec: ReferenceSpec, path: str, choose: Choose
) -> FileToSend | UnsentFile | None:
    """As `open_file`, for a file whose bytes are in the store; None for any other."""
    return _open(exchange, exchange.repository.files.open_stored, spec, path, choose)


def _open(
    exchange: Exchange, open_stream: _OpenStream, spec: ReferenceSpec, path: str, choose: Choose
) -> FileToSend | UnsentFile | None:
    files, call = exchange.repository.files, read_call(exchange)
    wanted = WHOLE_FILE
    if exchange.request.headers.get("range") is not None:
        info = files.stat(call, spec, path)
        chosen = choose(info)
        if chosen.status == 304:
            return UnsentFile(info, chosen)
        wanted = _range(chosen)
    for _ in range(_LOOKS_MAX):
        try:
            stream = open_stream(call, spec, path, wanted)
        except RangeNotSatisfiable:
            # The file became shorter after the look at it.
            wanted = WHOLE_FILE
            continue
        if stream is None:
            return None
        try:
            chosen = choose(stream.info)
            if (stream.start, stream.end) == (chosen.start, chosen.stop) and chosen.status != 304:
                return FileToSend(stream, next(iter(stream), b""), chosen)
        except LochanError:
            stream.close()
            raise
        stream.close()
        if chosen.status == 304:
            return UnsentFile(stream.info, chosen)
        wanted = _range(chosen)
    raise Conflict(f"{path!r} is replaced again and again; try again later")


def _range(chosen: ByteSelection) -> ByteRange:
    return ByteRange(start=chosen.start, end=chosen.stop) if chosen.length else WHOLE_FILE


class StreamReader:
    """A stream that one thread reads; the loop may close it meanwhile, if the client has left.

    A stream belongs to one thread at a time: if one is reading, that one closes it afterwards.
    """

    def __init__(self, stream: FileStream) -> None:
        self._stream = stream
        self._pieces: Iterator[bytes] = iter(stream)
        self._lock = Lock()
        self._is_closed = False
        self.length = stream.end - stream.start

    def read(self) -> bytes:
        """Returns the next piece; empty if the stream was closed."""
        with self._lock:
            piece = b"" if self._is_closed else next(self._pieces, b"")
        if self._is_closed:
            self.close()
        return piece

    def close(self) -> None:
        """Closes the stream, without waiting for a thread that reads it."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._stream.close()
            finally:
                self._lock.release()


async def read_parts(
    exchange: Exchange, reader: StreamReader, first: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """Yields the pieces of a file, each read in a thread."""
    left = reader.length - len(first)
    if first:
        yield first
    while left > 0:
        piece: bytes = await exchange.run(reader.read)
        if not piece:
            return
        left -= len(piece)
        yield piece


def no_body(length: int) -> ResponseStream:
    """Returns the body that an answer to HEAD announces and does not send."""
    return ResponseStream(_nothing(), length)


async def _nothing() -> AsyncGenerator[bytes, None]:
    for part in _NO_PARTS:
        yield part
