"""Bytes of files that come in: written piece by piece, staged after the last byte, or not at all.

1. A body that is short is read whole, and everything else is one call in a thread.
2. Of a longer one, the rights are decided and the upload is begun before a byte is read; pieces are
   joined, so that each call in a thread is worth its cost.
3. After the last byte the upload is finished: checksums and conditions are checked, and the file is
   staged. A body that is cut, malformed or too slow raises before, and the upload is given up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from threading import Lock
from typing import Final, TypeVar

from lochan.base.errors import Invalid, LochanError
from lochan.base.limits.client import UPLOAD_PIECE_BYTES
from lochan.faces.answers import answer
from lochan.faces.files.params import SIZE, branch_of, condition_of, path_of, upload_call
from lochan.model.files import FileInfo
from lochan.service.uploads import StagedUpload
from lochan.transport.body_streams import BodyStream
from lochan.transport.exchange import Exchange, Response
from lochan.wire.file_headers import read_properties
from lochan.wire.files import file_out

_Result = TypeVar("_Result")

_DIGITS_MAX: Final = 15


async def put_file(exchange: Exchange) -> Response:
    """Stages a file on a branch."""
    size = _size_of(exchange)
    begin = partial(_begin, exchange, size)
    body = exchange.request.stream
    if body is None:
        info = await exchange.run(lambda: _finish(begin(), [b""]))
    elif size is not None and size <= UPLOAD_PIECE_BYTES:
        pieces = [piece async for piece in body]
        info = await exchange.run(lambda: _finish(begin(), pieces))
    else:
        upload = await exchange.run(begin)
        info = await _receive(exchange, upload, body)
    return answer(file_out(info))


def _begin(exchange: Exchange, size: int | None) -> StagedUpload:
    properties = read_properties(exchange.request.headers.all, size)
    return exchange.repository.uploads.begin(
        upload_call(exchange),
        branch_of(exchange),
        path_of(exchange),
        properties,
        condition_of(exchange),
    )


async def _receive(exchange: Exchange, upload: StagedUpload, body: BodyStream) -> FileInfo:
    """Writes a body as it comes; whatever interrupts it, the upload is given up."""
    # An upload belongs to one thread at a time; one that is given up may still be written.
    lock = Lock()
    try:
        async for pieces in _joined(body):
            await exchange.run(partial(_locked, lock, partial(_write, upload, pieces)))
        info: FileInfo = await exchange.run(partial(_locked, lock, upload.finish))
    except BaseException:
        await _give_up(exchange, partial(_locked, lock, upload.abort))
        raise
    return info


def _locked(lock: Lock, work: Callable[[], _Result]) -> _Result:
    with lock:
        return work()


async def _joined(body: BodyStream) -> AsyncIterator[list[bytes]]:
    """Yields the pieces of a body, several at a time."""
    pieces: list[bytes] = []
    held = 0
    async for piece in body:
        pieces.append(piece)
        held += len(piece)
        if held >= UPLOAD_PIECE_BYTES:
            yield pieces
            pieces, held = [], 0
    if pieces:
        yield pieces


def _write(upload: StagedUpload, pieces: list[bytes]) -> None:
    for piece in pieces:
        upload.write(piece)


def _finish(upload: StagedUpload, pieces: list[bytes]) -> FileInfo:
    with upload:
        _write(upload, [piece for piece in pieces if piece])
        return upload.finish()


async def _give_up(exchange: Exchange, abort: Callable[[], None]) -> None:
    """Removes what was written; what is left if that fails, the sweep of uploads removes."""
    try:
        await exchange.run(abort)
    except LochanError:
        return


def _size_of(exchange: Exchange) -> int | None:
    """Returns the size of the body, if its sender has stated it; a packed body is refused."""
    headers = exchange.request.headers
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        raise Invalid("a file is stored as it is sent: send it without Content-Encoding")
    stated = {
        _number(name, value) for name in ("content-length", SIZE) for value in headers.all(name)
    }
    if len(stated) > 1:
        raise Invalid("Content-Length and Lochan-Size state two different sizes")
    if not stated and exchange.request.stream is None:
        return 0
    return stated.pop() if stated else None


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise Invalid(f"the header {name} is a number of bytes: {text[:40]!r}")
    return int(text)
