"""The BlockStore protocol: a place that holds the bytes of files, as immutable blocks.

Rules that every place keeps and that everything above relies on:

1. A block gets a random address from its place, never one that is derived from a user's path. It is
   visible only after `finish` or `complete_multipart`, then whole, and never changes.
2. `finish` returns only when the block is durable. If it raises, the address was never given out:
   nothing was stored, or garbage that no entry names and that a collector finds by `iterate`.
3. A read returns exactly the requested bytes or raises. A block that is missing, shorter or longer
   than its entry states raises Corrupt; it never looks like an empty or a shorter file.
4. Bytes pass in pieces. The memory of a transfer does not depend on the size of the block.
5. Calls of different threads need no lock. One upload or one read belongs to one thread at a time;
   parts of one multipart upload are uploads of their own and may come in parallel.
6. Places contain other things too: names that no place could have made are ignored by `iterate`
   and by the sweep, and are never read, followed or deleted.

Addresses. `ab3/…` (`is_own`) is a block of this place, relative to it. A full URL (`is_foreign`),
such as `s3://bucket/key`, is an object that was there before and that the operator has allowed to
import: it is read, listed and never deleted; its bytes may change, so each read states size and
etag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256 as new_sha256
from typing import Final, NewType, Protocol, Self

import msgspec

from lochan.base.errors import Corrupt, Invalid
from lochan.base.ports import Clock, Random
from lochan.base.secrets import Secret

BlockAddress = NewType("BlockAddress", str)
"""Where the bytes of a file are: relative to its place, or the URL of a foreign object."""

MultipartId = NewType("MultipartId", str)
"""Names one multipart upload at one place; opaque."""

# Random bytes of an address: no two servers ever choose the same.
ADDRESS_BYTES: Final = 16

_OWN: Final = re.compile(r"[0-9a-f]{3}/[0-9a-f]{29}\Z")
_FOREIGN: Final = re.compile(r"[a-z][a-z0-9+.-]{0,31}:[^\x00-\x1f\x7f]+\Z")


def build_address(random_bytes: bytes) -> BlockAddress:
    """Returns the address that these 16 random bytes make; three digits choose one of 4,096."""
    text = random_bytes.hex()
    return BlockAddress(f"{text[:3]}/{text[3:]}")


def is_own(address: str) -> bool:
    """Returns whether a place could have made this address."""
    return _OWN.match(address) is not None


def is_foreign(address: str) -> bool:
    """Returns whether this is the full address of an object that no place of ours has written."""
    return _FOREIGN.match(address) is not None


class StoredBlock(msgspec.Struct, frozen=True):
    """A block that is durable now.

    `sha256` is that of all bytes in hex, or None where they did not pass through this process: a
    multipart upload to S3. The identity of such a block is its etag together with its address.
    `etag` is the MD5 of the bytes in hex, or for a multipart upload the MD5 of the parts' MD5s, a
    minus and their number, as S3 defines it.
    """

    address: BlockAddress
    size: int
    sha256: str | None
    etag: str


class BlockInfo(msgspec.Struct, frozen=True):
    """What a place knows about a block or a foreign object without reading it.

    `etag` is the place's own and opaque: it stays equal as long as the object is not written again.
    """

    address: BlockAddress
    size: int
    etag: str
    modified_us: int


class StoredPart(msgspec.Struct, frozen=True):
    """One part of a multipart upload that is durable now; `etag` is the MD5 of its bytes in hex."""

    number: int
    size: int
    etag: str
    modified_us: int


class ChosenPart(msgspec.Struct, frozen=True, gc=False):
    """A part that the completed block shall have."""

    number: int
    etag: str


class ForeignObject(msgspec.Struct, frozen=True):
    """An object below an imported prefix; `path` is its name relative to the prefix."""

    path: str
    info: BlockInfo


class ForeignPage(msgspec.Struct, frozen=True):
    """Some objects of a prefix, in the order of the place: of the bytes of their paths, mostly.

    `next_after` continues the listing, None at its end. `ignored` counts what is no object and was
    left out: symbolic links, sockets and the like.
    """

    objects: Sequence[ForeignObject]
    next_after: str | None
    ignored: int = 0


class PresignedPut(msgspec.Struct, frozen=True):
    """A URL to which a client sends the bytes of one block, with exactly these headers.

    They make the write conditional: a second one to the same address is refused.
    """

    address: BlockAddress
    url: str
    headers: dict[str, str]


class PresignedParts(msgspec.Struct, frozen=True):
    """URLs to which a client sends parts of a multipart upload, and where the block will be."""

    address: BlockAddress
    urls: tuple[str, ...]


class PlaceOptions(msgspec.Struct, frozen=True):
    """What a place needs beside its URL.

    `imports` are the URLs of prefixes whose objects may be read and listed as foreign objects: a
    decision of the operator, because the server may read more than its users. Without an access
    key the place looks for credentials in the usual way of its kind.
    """

    clock: Clock
    random: Random
    imports: tuple[str, ...] = ()
    access_key: str = ""
    secret_key: Secret | None = None


class _Upload(Protocol):
    """What uploads of blocks and of parts share; leaving its `with` block unfinished aborts it."""

    def write(self, piece: bytes | bytearray | memoryview) -> None:
        """Takes the next bytes; Invalid if they are more than the stated size."""
        ...

    def abort(self) -> None:
        """Removes what was written; idempotent, and harmless after `finish`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class BlockUpload(_Upload, Protocol):
    """A block that is being written and that no reader sees yet."""

    def finish(self, *, sha256: str | None = None, md5: str | None = None) -> StoredBlock:
        """Makes the block durable and visible.

        Invalid if the bytes do not have the stated size or these checksums (in hex); then, and
        after any other error, the upload has ended and nothing is stored.
        """
        ...


class PartUpload(_Upload, Protocol):
    """A part that is being written; finished, it replaces an earlier one of its number."""

    def finish(self, *, sha256: str | None = None, md5: str | None = None) -> StoredPart:
        """As `BlockUpload.finish`, for one part."""
        ...


class BlockReader(Protocol):
    """The bytes of a read in pieces, never empty ones; close it unless it was read to its end."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes: ...

    def close(self) -> None:
        """Gives up the rest; idempotent."""
        ...


class BlockStore(Protocol):
    """Everything that Lochan needs of a place for object data.

    `signs_urls` states whether the calls that begin with `presign` return URLs.
    """

    signs_urls: bool

    def begin(self, *, size: int | None = None) -> BlockUpload:
        """Begins a block, of exactly this size if one is given."""
        ...

    def read(
        self, address: BlockAddress, start: int, end: int, *, size: int, etag: str = ""
    ) -> BlockReader:
        """Reads [start, end) of a block that has `size` bytes according to its entry.

        Raises before the first piece where the block is missing (Corrupt; NotFound for a foreign
        object) or has another size (Corrupt). A foreign object must also still have the `etag` of
        its BlockInfo, else Corrupt; our own blocks never change, and it is ignored.
        """
        ...

    def find(self, address: BlockAddress) -> BlockInfo | None:
        """Returns size, etag and time, or None if there is no such block or foreign object."""
        ...

    def delete(self, address: BlockAddress) -> None:
        """Makes a block absent; idempotent. Invalid for foreign objects."""
        ...

    def iterate(self, after: str = "") -> Iterator[BlockInfo]:
        """Yields every block whose address is greater than `after`, in the order of addresses.

        A block that is there all the time is yielded exactly once.
        """
        ...

    def begin_multipart(self) -> MultipartId:
        """Begins an upload in parts; it lasts until it is completed, aborted or swept."""
        ...

    def begin_part(
        self, upload: MultipartId, number: int, *, size: int | None = None
    ) -> PartUpload:
        """Begins part 1 to 10,000 of an upload; NotFound if the upload has ended."""
        ...

    def list_parts(self, upload: MultipartId, after: int = 0) -> Sequence[StoredPart]:
        """Returns up to 1,000 finished parts with numbers greater than `after`, in order."""
        ...

    def complete_multipart(self, upload: MultipartId, parts: Sequence[ChosenPart]) -> StoredBlock:
        """Joins the chosen parts, in ascending order, to one durable and visible block.

        Invalid if a part is missing, has another etag, or is too small and not the last. Unknown
        if the place may or may not have joined them: call it again with the same parts. It may be
        repeated after success too, until the upload is swept, and returns the same block.
        """
        ...

    def abort_multipart(self, upload: MultipartId) -> None:
        """Ends an upload and removes its parts; idempotent. A completed block stays."""
        ...

    def sweep_unfinished(self, before_us: int, limit: int = 1_000) -> int:
        """Removes up to `limit` uploads of either kind that nothing was added to since then.

        Returns how many were removed. A writer that is swept gets an error and stores nothing.
        """
        ...

    def presign_get(self, address: BlockAddress, lifetime_s: int) -> str | None:
        """Returns a URL from which anyone may read the block, None where the place has none."""
        ...

    def presign_put(self, lifetime_s: int) -> PresignedPut | None:
        """Returns a new address and how a client may write it once, None where it cannot.

        The block becomes known to Lochan only when its address is linked: check `find` first.
        """
        ...

    def presign_parts(
        self, upload: MultipartId, numbers: Sequence[int], lifetime_s: int
    ) -> PresignedParts | None:
        """Returns a URL for each of these parts of an upload, None where the place has none."""
        ...

    def list_foreign(self, prefix: str, after: str = "", limit: int = 1_000) -> ForeignPage:
        """Lists objects below the URL of a prefix that the operator allows; Denied elsewhere.

        `after` is the path that the page before named; pages have no gap and no repeat.
        """
        ...

    def close(self) -> None:
        """Releases all resources; every later call raises StoreClosed. Idempotent."""
        ...


def check_whole(pieces: Iterable[bytes], size: int, sha256: str) -> Iterator[bytes]:
    """Passes on all bytes of a block; raises Corrupt unless they have this size and checksum.

    The last piece is held back until both were checked, so that a consumer that counts bytes never
    has all of them if they are wrong.
    """
    digest = new_sha256()
    passed = 0
    held = b""
    for piece in pieces:
        digest.update(piece)
        passed += len(piece)
        if held:
            yield held
        held = piece
    if passed != size:
        raise Corrupt(f"a block has {passed} bytes, its entry states {size}")
    if digest.hexdigest() != sha256:
        raise Corrupt(f"a block of {size} bytes does not have the SHA-256 {sha256} of its entry")
    if held:
        yield held


def changed_import(message: str) -> Corrupt:
    """Returns the error for a foreign object that is not the one that was imported."""
    return Corrupt(
        message, public="the object of this file was changed after its import; import it again"
    )


def check_range(start: int, end: int, size: int) -> None:
    """Raises Invalid unless [start, end) lies within a block of this size."""
    if not 0 <= start <= end <= size:
        raise Invalid(f"the range {start} to {end} is not within {size} bytes")
