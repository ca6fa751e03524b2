"""Bytes of files that go out: whole or a range, on the conditions of the standard.

Conditions and ranges are those of RFC 9110 (`transport/conditions.py`). They are decided on the
file that is opened: one that is replaced between two looks at it is looked at again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from functools import partial
from threading import Lock
from typing import Final

from lochan.base.errors import ConditionFailed, Conflict, LochanError, RangeNotSatisfiable
from lochan.faces.calls import read_call
from lochan.faces.files.params import path_of, spec_of
from lochan.model.files import WHOLE_FILE, ByteRange, FileInfo, FileStream
from lochan.transport.body_streams import ResponseStream
from lochan.transport.conditions import ByteSelection, select
from lochan.transport.exchange import Exchange, Response, ResponseHeaders
from lochan.wire.file_headers import FILE, digest_text, file_text

_BINARY: Final = b"application/octet-stream"

# A file may be a page with a program. A browser that shows it must not let it act as one of ours.
_HARMLESS: Final = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-cache"),
)

_NO_PARTS: Final[tuple[bytes, ...]] = ()

# How often a file may be replaced between two looks at it.
_LOOKS_MAX: Final = 4


async def get_file(exchange: Exchange) -> Response:
    """Returns the bytes of a file, or of HEAD what they would be."""
    if exchange.request.method == "HEAD":
        response: Response = await exchange.run(partial(_describe, exchange))
        return response
    opened: Response | tuple[FileStream, bytes, ByteSelection]
    opened = await exchange.run(partial(_open, exchange))
    if isinstance(opened, Response):
        return opened
    stream, first, chosen = opened
    reader = _Reader(stream)
    parts = ResponseStream(_parts(exchange, reader, first), chosen.length, closed=reader.close)
    return _answer(stream.info, chosen, parts)


def _describe(exchange: Exchange) -> Response:
    info = exchange.repository.files.stat(read_call(exchange), spec_of(exchange), path_of(exchange))
    chosen = _select(exchange, info)
    return _answer(info, chosen, ResponseStream(_nothing(), chosen.length))


def _open(exchange: Exchange) -> Response | tuple[FileStream, bytes, ByteSelection]:
    """Opens what is to be sent, and reads its first piece in the same call."""
    files, call = exchange.repository.files, read_call(exchange)
    spec, path = spec_of(exchange), path_of(exchange)
    wanted = WHOLE_FILE
    if exchange.request.headers.get("range") is not None:
        info = files.stat(call, spec, path)
        chosen = _select(exchange, info)
        if chosen.status == 304:
            return _answer(info, chosen, None)
        wanted = _range(chosen)
    for _ in range(_LOOKS_MAX):
        try:
            stream = files.open(call, spec, path, wanted)
        except RangeNotSatisfiable:
            # The file became shorter after the look at it.
            wanted = WHOLE_FILE
            continue
        chosen = _select(exchange, stream.info, stream)
        if chosen.status == 304:
            stream.close()
            return _answer(stream.info, chosen, None)
        if (stream.start, stream.end) == (chosen.start, chosen.stop):
            return stream, _first(stream), chosen
        stream.close()
        wanted = _range(chosen)
    raise Conflict(f"{path!r} is replaced again and again; try again later")


def _select(exchange: Exchange, info: FileInfo, stream: FileStream | None = None) -> ByteSelection:
    """Returns which bytes a request wants, or that it knows them; raises if it may not have any."""
    chosen = select(exchange.request, info.etag, info.size)
    if chosen.status in (412, 416) and stream is not None:
        stream.close()
    if chosen.status == 412:
        raise ConditionFailed(f"{info.path!r} has the ETag {info.etag}, not the one in If-Match")
    if chosen.status == 416:
        raise RangeNotSatisfiable(f"{info.path!r} has {info.size} bytes", info.size)
    return chosen


def _range(chosen: ByteSelection) -> ByteRange:
    return ByteRange(start=chosen.start, end=chosen.stop) if chosen.length else WHOLE_FILE


def _first(stream: FileStream) -> bytes:
    try:
        return next(iter(stream), b"")
    except LochanError:
        stream.close()
        raise


class _Reader:
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


async def _parts(exchange: Exchange, reader: _Reader, first: bytes) -> AsyncGenerator[bytes, None]:
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


async def _nothing() -> AsyncGenerator[bytes, None]:
    for part in _NO_PARTS:
        yield part


def _answer(info: FileInfo, chosen: ByteSelection, parts: ResponseStream | None) -> Response:
    """Returns an answer about a file; without bytes if the conditions ask for none."""
    headers: ResponseHeaders = (
        *chosen.headers,
        (FILE.encode("ascii"), file_text(info).encode("ascii")),
        *_HARMLESS,
    )
    if info.sha256:
        headers += ((b"repr-digest", digest_text(info.sha256).encode("ascii")),)
    if chosen.status not in (200, 206):
        return Response(chosen.status, b"", headers, _BINARY)
    kind = info.content_type
    shown = kind.encode("ascii") if kind.isascii() and kind.isprintable() and kind else _BINARY
    return Response(chosen.status, b"", headers, shown, parts)
