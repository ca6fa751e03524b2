"""Open files of the file system: read by ranges, written as one upload when they are closed."""

from __future__ import annotations

import io
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, cast

from fsspec.spec import AbstractBufferedFile

from lochan.client.file_addresses import FileAddress, parse_address
from lochan.filesystem.failures import as_os_errors
from lochan.model.files import FileInfo

if TYPE_CHECKING:
    from lochan.filesystem.file_system import LochanFileSystem

# What a file that is being written keeps in memory; more of it waits in a temporary file.
_SPOOL_BYTES: Final = 4 * 1_024 * 1_024


class ReadFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read; all its ranges are of the file that was opened.

    A file of a branch may be replaced between two reads. Then reading raises OSError, and never
    mixes the bytes of two files.
    """

    def __init__(self, fs: LochanFileSystem, path: str, info: FileInfo, **more: Any) -> None:
        self._address = parse_address(path)
        self._info = info
        super().__init__(fs, path, "rb", size=info.size, **more)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self._info.size)
        if start >= end:
            return b""
        address = self._address
        files = self.fs.files_of(address)
        with (
            as_os_errors(self.path),
            files.open(address.spec, address.path, start=start, end=end) as stream,
        ):
            if _identity(stream.info) != _identity(self._info):
                raise OSError(
                    f"{self.path} was replaced while it was read; open it again, or read it at a "
                    "commit"
                )
            return bytes(stream.read())


def _identity(info: FileInfo) -> tuple[int, str, str, str]:
    return info.size, info.sha256, info.etag, "" if info.sha256 else info.address


class WrittenFile(io.RawIOBase):
    """A file that is written: its bytes wait on this machine and are uploaded by `close`.

    Leaving its `with` block by an error uploads nothing. In a transaction of fsspec, `commit`
    uploads it and `discard` drops it.
    """

    def __init__(
        self, fs: LochanFileSystem, path: str, *, autocommit: bool, if_absent: bool, **more: str
    ) -> None:
        super().__init__()
        self.fs = fs
        self.path = path
        self.mode = "wb"
        self._autocommit = autocommit
        self._if_absent = if_absent
        self._more = more
        spool = SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - closed by `close`
        self._spool = cast("BinaryIO", spool)
        self._is_wanted = True
        self._written = 0

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, piece: Any) -> int:
        """Takes the next bytes."""
        if self.closed:
            raise ValueError("the file is closed")
        count = self._spool.write(piece)
        self._written += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Returns how many bytes were written; a file is written from its beginning to its end."""
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("a file is written from its beginning to its end")
        return self._written

    def close(self) -> None:
        """Uploads the file, unless a transaction does so later."""
        if self.closed:
            return
        super().close()
        if not self._is_wanted:
            self._spool.close()
        elif self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Uploads the file."""
        address: FileAddress = parse_address(self.path)
        self._spool.seek(0)
        try:
            with as_os_errors(self.path):
                self.fs.files_of(address).put(
                    address.spec,
                    address.path,
                    self._spool,
                    if_absent=self._if_absent,
                    content_type=self._more.get("content_type", ""),
                )
        finally:
            self._spool.close()

    def discard(self) -> None:
        """Drops the file."""
        self._is_wanted = False
        self._spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._autocommit:
            self._is_wanted = False
        self.close()
