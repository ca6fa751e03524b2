"""Files as a user sees them: what they are, where they changed, how they are written and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, Literal, Protocol, Self

import msgspec

from lochan.base.errors import Invalid

FileMetadata = tuple[tuple[str, str], ...]
"""Names and values that a user gives a file, sorted by name."""

FileBody = bytes | bytearray | memoryview | BinaryIO | Iterable[bytes]
"""The bytes of a file to be written: all of them, a binary file, or pieces."""

# A piece of a body: large enough that its handling costs nothing, small enough for memory.
_PIECE_BYTES: Final = 256 * 1_024

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A file without its bytes.

    `sha256` is in hex, empty for an object that was linked or imported. `etag` is the MD5 of the
    bytes in hex, or what the place of an imported object states. `address` is where the bytes are;
    it is of use for operators and for links, and no reader needs it.
    """

    path: str
    size: int
    etag: str
    modified_us: int
    sha256: str = ""
    content_type: str = ""
    metadata: FileMetadata = ()
    address: str = ""


class FilePrefix(msgspec.Struct, frozen=True):
    """All paths of a listing that share the text up to a delimiter, which it includes."""

    path: str


FileItem = FileInfo | FilePrefix
"""What a listing with a delimiter has."""

ChangeKind = Literal["added", "changed", "removed"]


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A path whose file differs between two states; None on the side that does not have it."""

    path: str
    before: FileInfo | None = None
    after: FileInfo | None = None

    @property
    def kind(self) -> ChangeKind:
        """What happened to the file."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


FileDifference = FileChange | FilePrefix
"""What a difference with a delimiter has: a prefix has at least one change below it."""


class WriteCondition(msgspec.Struct, frozen=True, kw_only=True):
    """What a write demands of the file that is there now; without any of these, nothing.

    `if_absent`: there is none. `if_match`: there is one with this ETag, or any one for `*`.
    `if_sha256`: there is one with this SHA-256, in hex.
    """

    if_absent: bool = False
    if_match: str = ""
    if_sha256: str = ""

    def __post_init__(self) -> None:
        if self.if_absent and (self.if_match or self.if_sha256):
            raise Invalid("a file cannot be absent and match something")
        if self.if_sha256:
            sha256_bytes(self.if_sha256)


UNCONDITIONAL: Final = WriteCondition()


class FileProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer states about a file beside its bytes.

    `size`, `sha256` and `md5` (both in hex) are checked if they are given: a stream with other
    bytes stores nothing.
    """

    content_type: str = ""
    metadata: FileMetadata = ()
    size: int | None = None
    sha256: str = ""
    md5: str = ""


class ByteRange(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes [start, end) of a file, up to its end without `end`; or its `last` bytes."""

    start: int = 0
    end: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None and (self.start or self.end is not None or self.last < 1):
            raise Invalid("the last bytes of a file are one or more, without a start or an end")
        if self.start < 0 or (self.end is not None and self.end <= self.start):
            raise Invalid("a range begins at 0 or later, and ends after its beginning")


WHOLE_FILE: Final = ByteRange()


class FileStream(Protocol):
    """The bytes of a file as they are read, in pieces; close it unless it was read to its end.

    `start` and `end` are those of the range, as numbers of bytes of this file.
    """

    @property
    def info(self) -> FileInfo:
        """The file that is read."""
        ...

    @property
    def start(self) -> int:
        """Where the range begins."""
        ...

    @property
    def end(self) -> int:
        """Where the range ends."""
        ...

    def __iter__(self) -> Iterator[bytes]: ...

    def read(self) -> bytes:
        """Returns all bytes that are left."""
        ...

    def close(self) -> None:
        """Gives up the rest; idempotent."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class AddressReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A place for the bytes of one file, which a client writes by itself and then links.

    `token` is what is linked, until `expires_us` and once. The client sends the bytes to `url` by a
    PUT with exactly these headers.
    """

    token: str
    address: str
    expires_us: int
    url: str
    headers: tuple[tuple[str, str], ...] = ()


class UploadedPart(msgspec.Struct, frozen=True, gc=False):
    """A part of an upload; `etag` is the MD5 of its bytes in hex."""

    number: int
    etag: str
    size: int = 0
    modified_us: int = 0


class OpenUpload(msgspec.Struct, frozen=True):
    """An upload in parts that is under way."""

    branch: str
    path: str
    id: str
    began_us: int


class SignedUpload(msgspec.Struct, frozen=True):
    """An upload in parts that a client sends to the place of a repository by itself.

    `address` is where the bytes of the file will be, `urls` are where the parts are sent.
    """

    id: str
    address: str
    urls: tuple[str, ...] = ()


class UploadPage(msgspec.Struct, frozen=True):
    """Some uploads in parts, in the order of their names, and whether there are more."""

    uploads: tuple[OpenUpload, ...]
    is_truncated: bool = False


class ImportSource(msgspec.Struct, frozen=True):
    """A prefix of an object store, whose objects become files below `prefix` without a copy.

    With `is_object` it is a single object, and `prefix` is the path of its file.
    """

    url: str
    prefix: str
    is_object: bool = False


class ImportJob(msgspec.Struct, frozen=True):
    """An import in the background: its commit if it is completed, its error if it has none."""

    id: str
    is_completed: bool
    objects: int
    updated_us: int
    hash: str = ""
    error: str = ""


class ImportProgress(msgspec.Struct, frozen=True):
    """How far an import is: objects found so far, and what was left out as no object."""

    objects: int
    ignored: int


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The commit of an import, and how many objects it has imported."""

    branch: str
    hash: str
    objects: int
    ignored: int = 0


def metadata_of(metadata: Mapping[str, str] | FileMetadata | None) -> FileMetadata:
    """Returns metadata in its order; Invalid for anything but text."""
    pairs = metadata.items() if isinstance(metadata, Mapping) else metadata or ()
    given: list[tuple[Any, Any]] = list(pairs)
    found: list[tuple[str, str]] = []
    for name, value in given:
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            raise Invalid("metadata of a file is text under names")
        found.append((name, value))
    return tuple(sorted(found))


def sha256_bytes(digits: str) -> bytes:
    """Returns the bytes of a SHA-256 in hex; Invalid if it is none."""
    if _SHA256.fullmatch(digits) is None:
        raise Invalid(f"a SHA-256 has 64 digits in hex, not {digits[:80]!r}")
    return bytes.fromhex(digits)


def pieces_of(body: FileBody) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a body in pieces of bounded size, none of them empty."""
    if isinstance(body, bytes | bytearray | memoryview):
        yield from _cut(body)
        return
    read: Callable[[int], Any] | None = getattr(body, "read", None)
    pieces: Iterable[Any] = body if read is None else _read_all(read)
    for piece in pieces:
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise Invalid("a file is written from bytes; open a source in binary mode")
        yield from _cut(piece)


def _read_all(read: Callable[[int], Any]) -> Iterator[Any]:
    while piece := read(_PIECE_BYTES):
        yield piece


def _cut(whole: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    raw = memoryview(whole).cast("B")
    for start in range(0, len(raw), _PIECE_BYTES):
        yield raw[start : start + _PIECE_BYTES]
