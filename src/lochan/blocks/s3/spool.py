"""Bytes of one request before they are sent: in memory, and in an unnamed file above the limit.

A request to S3 states length and MD5 of its body first and may be repeated, so the body is kept
until it was accepted.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from tempfile import SpooledTemporaryFile
from typing import IO

from lochan.base.errors import Exhausted
from lochan.base.limits.blocks import BLOCK_BUFFER_BYTES


class Spool:
    """The body of one request; written once, read as often as it is sent."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=BLOCK_BUFFER_BYTES)  # noqa: SIM115
        self._md5 = md5(usedforsecurity=False)
        self.size = 0

    def write(self, piece: memoryview) -> None:
        """Adds bytes at the end."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise Exhausted(f"the directory for temporary files is full: {error}") from error
        self._md5.update(piece)
        self.size += len(piece)

    @property
    def md5(self) -> str:
        """The MD5 of the bytes in hex: the ETag that S3 gives them."""
        return self._md5.hexdigest()

    @property
    def content_md5(self) -> str:
        """The MD5 of the bytes as the header Content-MD5 has it."""
        return b64encode(self._md5.digest()).decode()

    def body(self) -> IO[bytes]:
        """Returns the bytes as a file at its beginning."""
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Frees memory or file; idempotent."""
        self._file.close()
