"""Reads of files: exactly the requested bytes, or an error."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lochan.base.errors import Corrupt
from lochan.base.limits.blocks import BLOCK_PIECE_BYTES
from lochan.blocks.local.failures import failure


class FileReader:
    """Yields [start, end) of an open file, which it closes; positions are its own, not the file's.

    A forked process may therefore go on reading, and so may its parent.
    """

    def __init__(self, number: int, what: str, start: int, end: int) -> None:
        self._number = number
        self._what = what
        self._position = start
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._number < 0 or self._position == self._end:
            self.close()
            raise StopIteration
        try:
            wanted = min(BLOCK_PIECE_BYTES, self._end - self._position)
            piece = os.pread(self._number, wanted, self._position)
        except OSError as error:
            self.close()
            raise failure(error, f"reading {self._what}") from error
        if not piece:
            self.close()
            raise Corrupt(f"{self._what} ends at byte {self._position}, before {self._end}")
        self._position += len(piece)
        return piece

    def close(self) -> None:
        """Closes the file; idempotent."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1

    def __del__(self) -> None:
        self.close()
