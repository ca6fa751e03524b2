"""The folder `objects`: blocks by address, one file each.

A file gets here by one rename, after its bytes are durable:

1. the file is written and synchronised under another name in the same file system;
2. its directory exists, durably;
3. the rename makes it visible, whole;
4. the directory is synchronised: the name is durable too, and only now it is acknowledged.

A crash before 3 leaves an unfinished upload for the sweep; after 3 a block that no entry names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from lochan.base.errors import Corrupt
from lochan.blocks.local.failures import failure
from lochan.blocks.local.folders import (
    READ,
    Folder,
    create,
    find_status,
    is_directory,
    is_file,
    names_in,
    opened,
)
from lochan.staging.block_store import BlockAddress, BlockInfo, is_own

_SHELF: Final = re.compile(r"[0-9a-f]{3}\Z")


class LocalObjects:
    """Blocks by their address."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        # Directories that are durable; a name is added after its parent was synchronised.
        self._durable: set[str] = set()

    def adopt(self, name: str, directory: int, address: BlockAddress) -> None:
        """Moves a synchronised file here (steps 2 to 4); if it raises, the block is not here.

        FileNotFoundError if the file has been removed meanwhile.
        """
        shelf, _, rest = address.partition("/")
        if shelf not in self._durable:
            create(shelf, self._folder.number)
            self._durable.add(shelf)
        with opened(shelf, self._folder.number) as target:
            os.rename(name, rest, src_dir_fd=directory, dst_dir_fd=target)
            try:
                os.fsync(target)
            except BaseException:
                # It may not survive a power cut, so it must not be found by a later call either.
                os.unlink(rest, dir_fd=target)
                raise

    def open(self, address: BlockAddress) -> int:
        """Opens the file of a block; FileNotFoundError if there is none."""
        shelf, _, rest = address.partition("/")
        try:
            with opened(shelf, self._folder.number) as directory:
                number = os.open(rest, READ, dir_fd=directory)
        except OSError as error:
            # The file system reports a link or another kind of file in several ways.
            if not isinstance(error, FileNotFoundError) and self._is_foreign(shelf, rest):
                raise Corrupt(f"{address} is not a file of this place: {error.strerror}") from error
            raise
        if not is_file(os.fstat(number)):
            os.close(number)
            raise Corrupt(f"{address} is not a regular file")
        return number

    def find(self, address: BlockAddress) -> BlockInfo | None:
        """Returns what is known about a block, None if there is no file with its name."""
        shelf, _, rest = address.partition("/")
        if not is_directory(find_status(shelf, self._folder.number)):
            return None
        status = None
        with suppress(FileNotFoundError), opened(shelf, self._folder.number) as directory:
            status = find_status(rest, directory)
        return _info(address, status)

    def delete(self, address: BlockAddress) -> None:
        """Removes the file of a block; anything else that has its name stays."""
        shelf, _, rest = address.partition("/")
        if not is_directory(find_status(shelf, self._folder.number)):
            return
        with suppress(FileNotFoundError), opened(shelf, self._folder.number) as directory:
            if is_file(find_status(rest, directory)):
                os.unlink(rest, dir_fd=directory)
                os.fsync(directory)

    def iterate(self, after: str) -> Iterator[BlockInfo]:
        """Yields blocks in order; holds the names of one directory at a time."""
        try:
            shelves = [name for name in names_in(self._folder.number) if _SHELF.match(name)]
            for shelf in shelves:
                if shelf >= after[:3]:
                    yield from self._in_shelf(shelf, after)
        except OSError as error:
            raise failure(error, "listing the blocks") from error

    def _in_shelf(self, shelf: str, after: str) -> Iterator[BlockInfo]:
        if not is_directory(find_status(shelf, self._folder.number)):
            return
        with opened(shelf, self._folder.number) as directory:
            for name in names_in(directory):
                address = BlockAddress(f"{shelf}/{name}")
                if address > after and is_own(address):
                    info = _info(address, find_status(name, directory))
                    if info is not None:
                        yield info

    def _is_foreign(self, shelf: str, rest: str) -> bool:
        if not is_directory(find_status(shelf, self._folder.number)):
            return True
        with opened(shelf, self._folder.number) as directory:
            return not is_file(find_status(rest, directory))


def etag_of(status: os.stat_result) -> str:
    """Returns a text that changes whenever the file is written or replaced."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _info(address: BlockAddress, status: os.stat_result | None) -> BlockInfo | None:
    if status is None or not is_file(status):
        return None
    return BlockInfo(address, status.st_size, etag_of(status), status.st_mtime_ns // 1_000)
