"""Foreign files: what lies below directories that the operator allows to import.

The address of a foreign file is `file://` and its absolute path, percent-encoded, because names of
files have any bytes. Each name on the way from the allowed directory down to the file is opened by
itself and is never a symbolic link; the way to the allowed directory is the operator's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lochan.base.errors import Corrupt, Denied, Invalid, InvalidUrl
from lochan.base.limits.contents import FILE_ADDRESS_BYTES_MAX
from lochan.blocks.local.failures import failure
from lochan.blocks.local.folders import (
    DIRECTORY,
    READ,
    find_status,
    is_directory,
    is_file,
    names_in,
)
from lochan.blocks.local.objects import etag_of
from lochan.staging.block_store import BlockAddress, BlockInfo, ForeignObject, ForeignPage

SCHEME: Final = "file://"


class ForeignFiles:
    """Files below the allowed directories."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._roots = [_read_root(url) for url in imports]

    def open(self, address: str) -> int:
        """Opens a foreign file; FileNotFoundError if there is none, Denied where not allowed."""
        root, names = self._locate(address)
        if not names:
            raise Invalid(f"{address} is a directory")
        with _opened_way(root, names[:-1]) as directory:
            number = os.open(names[-1], READ, dir_fd=directory)
        if not is_file(os.fstat(number)):
            os.close(number)
            raise Corrupt(f"{address} is not a regular file")
        return number

    def find(self, address: str) -> BlockInfo | None:
        """Returns what is known about a foreign file, None if there is no regular file."""
        root, names = self._locate(address)
        if not names:
            return None
        status = None
        with suppress(FileNotFoundError, NotADirectoryError), _opened_way(root, names[:-1]) as way:
            status = find_status(names[-1], way)
        return _info(address, status) if status is not None and is_file(status) else None

    def list_below(self, prefix: str, after: str, limit: int) -> ForeignPage:
        """Lists files below a directory in the byte order of their paths, as S3 does."""
        root, names = self._locate(prefix)
        found: list[ForeignObject] = []
        ignored = 0
        try:
            with _opened_way(root, names) as top:
                base = prefix if prefix.endswith("/") else f"{prefix}/"
                for path, status in _walk(top, os.fsencode(after)):
                    if not is_file(status):
                        ignored += 1
                        continue
                    if len(found) == limit:
                        return ForeignPage(found, found[-1].path, ignored)
                    found.append(_object(base, path, status))
        except FileNotFoundError as error:
            raise Invalid(f"there is no directory {prefix}") from error
        except OSError as error:
            raise failure(error, f"listing {prefix}") from error
        return ForeignPage(found, None, ignored)

    def _locate(self, address: str) -> tuple[str, list[str]]:
        """Splits an address into an allowed directory and the names below it."""
        names = read_path(address)
        for root in self._roots:
            if names[: len(root)] == root:
                return "/" + "/".join(root), names[len(root) :]
        raise Denied(f"{address} is not below a directory that the operator allows to import")


def read_path(url: str) -> list[str]:
    """Returns the names of an absolute path, without one that could lead elsewhere."""
    if not url.startswith(f"{SCHEME}/") or len(url.encode()) > FILE_ADDRESS_BYTES_MAX:
        raise Invalid("the address of a foreign file is file:// and an absolute path")
    names = [part for part in unquote_to_bytes(url.removeprefix(SCHEME)).split(b"/") if part]
    if any(name in {b".", b".."} or b"\0" in name for name in names):
        raise Invalid("the path of a foreign file contains no '.', '..' or NUL")
    return [os.fsdecode(name) for name in names]


def _read_root(url: str) -> list[str]:
    try:
        names = read_path(url)
    except Invalid as error:
        raise InvalidUrl(f"an allowed directory is written file:///PATH: {error}") from error
    if not names:
        raise InvalidUrl("the directory / cannot be allowed to import")
    return names


@contextmanager
def _opened_way(root: str, names: Sequence[str]) -> Iterator[int]:
    """Opens a directory by its names, one by one, below a root whose own links are followed."""
    current = os.open(PurePosixPath(root), DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for name in names:
            following = os.open(name, DIRECTORY, dir_fd=current)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def _walk(top: int, after: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yields what is no directory and has a greater path than `after`, in the order of paths.

    Holds one open directory and its names for each level.
    """
    levels: list[tuple[int, bytes, Iterator[tuple[bytes, os.stat_result]]]] = []
    try:
        levels.append((os.dup(top), b"", _entries(top, b"", after)))
        while levels:
            number, below, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                os.close(levels.pop()[0])
                continue
            path, status = entry
            if is_directory(status):
                name = path[len(below) : -1]
                with suppress(FileNotFoundError, NotADirectoryError):
                    inner = os.open(name, DIRECTORY, dir_fd=number)
                    levels.append((inner, path, _entries(inner, path, after)))
            else:
                yield path, status
    finally:
        for number, _, _ in levels:
            os.close(number)


def _entries(directory: int, below: bytes, after: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yields the entries of one directory; paths of directories end with a slash, and sort so."""
    found = []
    for name in names_in(directory):
        status = find_status(name, directory)
        if status is not None:
            end = b"/" if is_directory(status) else b""
            path = below + os.fsencode(name) + end
            if path > after or (end and after.startswith(path)):
                found.append((path, status))
    found.sort(key=lambda entry: entry[0])
    yield from found


def _object(base: str, path: bytes, status: os.stat_result) -> ForeignObject:
    try:
        text = path.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"the name {path!r} below {base} is not UTF-8 and cannot be a path"
        ) from error
    return ForeignObject(text, _info(base + quote_from_bytes(path), status))


def _info(address: str, status: os.stat_result) -> BlockInfo:
    modified_us = status.st_mtime_ns // 1_000
    return BlockInfo(BlockAddress(address), status.st_size, etag_of(status), modified_us)
