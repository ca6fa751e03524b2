"""Where the bytes of an upload come from: memory, a file, an iterator; read in pieces.

An upload may be sent again only if its source can be read again from the same place. Bytes, paths
and seekable files can; an iterator and a pipe cannot.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from lochan.base.errors import Invalid
from lochan.base.limits.client import UPLOAD_PIECE_BYTES

Uploadable = (
    bytes
    | bytearray
    | memoryview
    | Path
    | BinaryIO
    | io.IOBase
    | Iterable[bytes]
    | AsyncIterable[bytes]
)
"""What may be uploaded; a text is refused, because it could be a path or the bytes themselves."""


class UploadSource(ABC):
    """The bytes of one upload; `size` is None where it is known only at the end."""

    size: int | None = None

    @abstractmethod
    def open(self) -> Iterator[bytes]:
        """Yields the bytes in pieces, from the beginning."""

    def __iter__(self) -> Iterator[bytes]:
        return self.open()

    def may_be_sent_again(self) -> bool:
        """Returns whether `open` may be called now and yields all bytes."""
        return True


class AsyncSource(UploadSource):
    """The pieces of an asynchronous iterator; only the asynchronous client sends them."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = pieces
        self._is_used = False

    def open(self) -> Iterator[bytes]:
        """Refuses: nothing here runs a loop."""
        raise Invalid("an asynchronous iterator is uploaded by the asynchronous client only")

    async def open_async(self) -> AsyncIterator[bytes]:
        """Yields the bytes in pieces."""
        self._is_used = True
        async for piece in self._pieces:
            yield piece

    def may_be_sent_again(self) -> bool:
        """Returns whether nothing was read yet."""
        return not self._is_used


class _BytesSource(UploadSource):
    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content).cast("B")
        self.size = len(self._content)

    def open(self) -> Iterator[bytes]:
        for at in range(0, len(self._content), UPLOAD_PIECE_BYTES):
            yield bytes(self._content[at : at + UPLOAD_PIECE_BYTES])


class _PathSource(UploadSource):
    """A file by its name; its size is that at the time of the call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.size = path.stat().st_size
        except OSError as error:
            raise Invalid(f"{path} cannot be read: {error.strerror}") from None
        if not path.is_file():
            raise Invalid(f"{path} is not a file")

    def open(self) -> Iterator[bytes]:
        try:
            file = self._path.open("rb", buffering=0)
        except OSError as error:
            raise Invalid(f"{self._path} cannot be read: {error.strerror}") from None
        with file:
            yield from _exactly(cast("BinaryIO", file), self.size or 0, str(self._path))


class _SeekableSource(UploadSource):
    """An open file that can be read again, from where it was at the time of the call."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = file.tell()
        self.size = max(0, file.seek(0, os.SEEK_END) - self._start)
        file.seek(self._start)

    def open(self) -> Iterator[bytes]:
        self._file.seek(self._start)
        yield from _exactly(self._file, self.size or 0, "the file")


class _IteratorSource(UploadSource):
    """Pieces that come once, from an iterator or from a file that cannot seek."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._is_used = False

    def open(self) -> Iterator[bytes]:
        if self._is_used:
            raise Invalid("an iterator can be uploaded once only")
        self._is_used = True
        for piece in self._pieces:
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise Invalid(f"an upload consists of bytes, not of {type(piece).__name__}")
            if piece:
                yield bytes(piece)

    def may_be_sent_again(self) -> bool:
        return not self._is_used


def source_of(content: Uploadable) -> UploadSource:
    """Returns the source of an upload; Invalid if it is a text, or a file of texts."""
    if isinstance(content, UploadSource):
        return content
    if isinstance(content, bytes | bytearray | memoryview):
        return _BytesSource(content)
    if isinstance(content, Path):
        return _PathSource(content)
    if isinstance(content, str | io.TextIOBase):
        raise Invalid(
            "a text cannot be uploaded: pass bytes, a pathlib.Path, a file that was opened in "
            "binary mode, or an iterator of bytes"
        )
    if isinstance(content, AsyncIterable):
        return AsyncSource(content)
    if not hasattr(content, "seekable") and isinstance(content, Iterable):
        # The stream of another file has `read` too, and is no file.
        return _IteratorSource(content)
    if not hasattr(content, "read"):
        raise Invalid(f"{type(content).__name__} cannot be uploaded: it has no bytes")
    file = cast("BinaryIO", content)
    if getattr(content, "seekable", bool)():
        return _SeekableSource(file)
    return _IteratorSource(iter(lambda: file.read(UPLOAD_PIECE_BYTES), b""))


def _exactly(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """Yields so many bytes of a file; Invalid if it became shorter meanwhile."""
    left = size
    while left:
        piece = file.read(min(left, UPLOAD_PIECE_BYTES))
        if not piece:
            raise Invalid(f"{name} became shorter while it was uploaded; nothing was stored")
        left -= len(piece)
        yield piece
