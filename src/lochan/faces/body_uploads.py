"""Bodies that are written as they come: pieces joined, each call in a thread worth its cost.

1. A body that is short is read whole, and everything else is one call in a thread.
2. Of a longer one, the rights are decided and the upload is begun before a byte is read.
3. After the last byte the upload is finished. A body that is cut, malformed or too slow raises
   before, and the upload is given up.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from functools import partial
from threading import Lock
from typing import Protocol, TypeVar

from lochan.base.errors import LochanError
from lochan.base.limits.client import UPLOAD_PIECE_BYTES
from lochan.transport.exchange import Exchange

_Result = TypeVar("_Result")
_Stored_co = TypeVar("_Stored_co", covariant=True)


class BodyUpload(Protocol[_Stored_co]):
    """What takes the bytes of a body; one thread at a time."""

    def write(self, piece: bytes) -> None:
        """Takes the next bytes."""
        ...

    def finish(self) -> _Stored_co:
        """Checks and stores them."""
        ...

    def abort(self) -> None:
        """Removes what was written; idempotent, and harmless after `finish`."""
        ...


async def receive(
    exchange: Exchange,
    begin: Callable[[], BodyUpload[_Result]],
    body: AsyncIterable[bytes] | None,
    size: int | None,
) -> _Result:
    """Writes a body of a size, if that is known; returns what the upload has stored."""
    if body is None or (size is not None and size <= UPLOAD_PIECE_BYTES):
        pieces = [] if body is None else [piece async for piece in body]
        whole: _Result = await exchange.run(lambda: write_whole(begin(), pieces))
        return whole
    upload: BodyUpload[_Result] = await exchange.run(begin)
    return await _write_pieces(exchange, upload, body)


async def _write_pieces(
    exchange: Exchange, upload: BodyUpload[_Result], body: AsyncIterable[bytes]
) -> _Result:
    """Writes a body as it comes; whatever interrupts it, the upload is given up."""
    # An upload belongs to one thread at a time; one that is given up may still be written.
    lock = Lock()
    try:
        async for pieces in _joined(body):
            await exchange.run(partial(_locked, lock, partial(_write, upload, pieces)))
        stored: _Result = await exchange.run(partial(_locked, lock, upload.finish))
    except BaseException:
        await _give_up(exchange, partial(_locked, lock, upload.abort))
        raise
    return stored


def _locked(lock: Lock, work: Callable[[], _Result]) -> _Result:
    with lock:
        return work()


async def _joined(body: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
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


def _write(upload: BodyUpload[_Result], pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        if piece:
            upload.write(piece)


def write_whole(upload: BodyUpload[_Result], pieces: Iterable[bytes]) -> _Result:
    """Writes a body that was read; returns what the upload has stored."""
    try:
        _write(upload, pieces)
        return upload.finish()
    except BaseException:
        upload.abort()
        raise


async def _give_up(exchange: Exchange, abort: Callable[[], None]) -> None:
    """Removes what was written; what is left if that fails, the sweep of uploads removes."""
    try:
        await exchange.run(abort)
    except LochanError:
        return
