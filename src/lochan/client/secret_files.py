"""Small files that hold secrets: read again after a change, written for their owner only."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from lochan.base.errors import Invalid

_Value = TypeVar("_Value")

# The times of a file have steps of some milliseconds. A file that changed this shortly before it
# was read may change once more and have the same times, so it is read again.
_SETTLED_NS: Final = 1_000_000_000

_OWNER_ONLY: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

_Stamp = tuple[int, int, int, int, int]


class SecretFile(Generic[_Value]):
    """A file and the value that `parse` makes of its bytes; parsed once for each of its contents.

    With `private`, a file that others can read or write is refused. `FileNotFoundError` and other
    errors of the system are those of `open`.
    """

    def __init__(
        self, path: Path, bytes_max: int, parse: Callable[[bytes], _Value], *, private: bool
    ) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._parse = parse
        self._private = private
        self._known: tuple[_Stamp, _Value] | None = None

    def read(self) -> _Value:
        """Returns the value of the file as it is now."""
        known = self._known
        if known is not None and known[0] == _stamp(self.path.stat()):
            return known[1]
        with self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            if self._private and found.st_mode & _OTHERS:
                raise Invalid(
                    f"other users can read or change {self.path}, which holds secrets; "
                    f"run `chmod 600 {self.path}`, and replace the secrets if others may know them"
                )
            content = file.read(self._bytes_max + 1)
        if len(content) > self._bytes_max:
            raise Invalid(f"{self.path} is larger than {self._bytes_max:,} bytes")
        value = self._parse(content)
        is_settled = time.time_ns() - found.st_ctime_ns > _SETTLED_NS
        self._known = (_stamp(found), value) if is_settled else None
        return value


def write_private(path: Path, content: bytes) -> None:
    """Writes a file, whole or not at all, that only its owner can read."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(unfinished, flags, _OWNER_ONLY), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


@contextmanager
def one_writer(directory: Path) -> Iterator[None]:
    """Lets one process at a time read, change and write the files of a directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamp(found: os.stat_result) -> _Stamp:
    """Returns what changes with the contents, the owner or the mode of a file."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
