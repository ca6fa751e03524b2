"""Commits and tags as stored objects.

A commit's id covers what its author did: parents, message, headers, hidden headers and a digest of
the operations. The index of the result, the time of storing and the position in history are beside
that in the body, under a checksum of their own: two servers that retry one operation make one
commit, even if their indexes differ, and the first body stored wins. The id of a tag is the hash of
its bytes, as of every plain object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, Literal
from zlib import crc32

import msgspec

from lochan.base.errors import Corrupt, TooLarge
from lochan.base.ids import ID_BYTES, ObjId
from lochan.base.limits.commits import COMMIT_BYTES_MAX
from lochan.base.limits.storage import OBJECT_BYTES_MAX
from lochan.codec.forms import (
    CHECKSUM_BYTES,
    DECODE_FAILURES,
    add_checksum,
    is_of_type,
    unreadable,
)
from lochan.codec.objects import check_object_id

TYPE_COMMIT: Final = 1
TYPE_TAG: Final = 2

Headers = tuple[tuple[str, tuple[str, ...]], ...]
"""Names in ascending order, each with its values."""

_encode: Final = msgspec.msgpack.Encoder().encode
_DIGESTED_TOGETHER: Final = 1_000

# A commit is an array of 17, which MessagePack writes with a length of two bytes; then its type.
_COMMIT_MARK: Final = b"\xdc\x00\x11" + bytes((TYPE_COMMIT,))


class UniverseIndex(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The layers of one universe: the embedded one, and the root and size of the tree.

    `layers` is for a level between the two, which no version has written yet.
    """

    universe: int
    embedded: bytes
    root: bytes | None
    layers: tuple[bytes, ...] = ()


class CommitObject(
    msgspec.Struct,
    frozen=True,
    gc=False,
    array_like=True,
    tag=TYPE_COMMIT,
    forbid_unknown_fields=True,
):
    """One commit, whole."""

    version: Literal[1]
    parents: tuple[bytes, ...]
    message: str
    headers: Headers
    hidden: Headers
    operations: bytes
    """Digest of the operations; the end of what the id covers."""

    created_us: int
    sequence: int
    generation: int
    merges: int
    """How many commits with several parents there are on the first-parent line up to this one."""

    root: bytes
    """The id of the first ancestor; empty in the first commit itself."""

    tail: tuple[bytes, ...]
    """Up to 20 first-parent ancestors, the parent first; none for the first commit."""

    jump: bytes
    """The first-parent ancestor with sequence `jump_sequence(sequence)`."""

    own: tuple[bytes, ...] | None
    """The keys of the commit's own operations, None where they are too many to list."""

    indexes: tuple[UniverseIndex, ...]

    unchanged_root: bytes | None = None
    """Where `own` is None: the root of a tree of those own keys that the commit left as they were.

    All other own keys are the difference to the parent. None if every operation changed its key.
    """


class CommitLine(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=TYPE_COMMIT):
    """What a search through a line of commits needs of each; all else stays undecoded.

    The fields are the first ones of `CommitObject`, in its order.
    """

    version: int
    parents: msgspec.Raw
    message: msgspec.Raw
    headers: msgspec.Raw
    hidden: msgspec.Raw
    operations: msgspec.Raw
    created_us: msgspec.Raw
    sequence: int
    generation: msgspec.Raw
    merges: msgspec.Raw
    root: msgspec.Raw
    tail: msgspec.Raw
    jump: msgspec.Raw
    own: tuple[bytes, ...] | None

    def ancestors(self) -> list[ObjId]:
        """Returns up to 20 first-parent ancestors, the parent first."""
        return [ObjId(raw) for raw in _decode_tail(self.tail)]


class TagObject(
    msgspec.Struct, frozen=True, gc=False, array_like=True, tag=TYPE_TAG, forbid_unknown_fields=True
):
    """An annotated tag: where it points, and what its maker wrote on it."""

    version: Literal[1]
    target: bytes
    message: str
    headers: Headers
    signature: bytes


_decode_commit: Final = msgspec.msgpack.Decoder(CommitObject).decode
_decode_tag: Final = msgspec.msgpack.Decoder(TagObject).decode
_decode_line: Final = msgspec.msgpack.Decoder(CommitLine).decode
_decode_tail: Final = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


def commit_id(commit: CommitObject) -> ObjId:
    """Returns the id: the hash of what the author did."""
    identity = (
        TYPE_COMMIT,
        commit.version,
        commit.parents,
        commit.message,
        commit.headers,
        commit.hidden,
        commit.operations,
    )
    return ObjId(sha256(_encode(identity)).digest())


class OperationsDigest:
    """The digest of keys and elements, which come in ascending order; None is a removal."""

    def __init__(self) -> None:
        self._digest = sha256()

    def add(self, operations: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Takes the operations that follow."""
        # In pieces, because no other thread runs during one call.
        for start in range(0, len(operations), _DIGESTED_TOGETHER):
            piece = operations[start : start + _DIGESTED_TOGETHER]
            self._digest.update(b"".join(map(_encode, piece)))

    def add_pairs(self, keys: Sequence[bytes], elements: Sequence[bytes | None]) -> None:
        """Takes some thousand operations at most, their keys and their elements."""
        self._digest.update(b"".join(map(_encode, zip(keys, elements, strict=True))))

    def value(self) -> bytes:
        """Returns the digest of all that was added."""
        return self._digest.digest()


def digest_operations(operations: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Returns the digest of operations that are all at hand."""
    digest = OperationsDigest()
    digest.add(list(operations))
    return digest.value()


def encode_commit(commit: CommitObject) -> bytes:
    """Returns the stored body with its checksum."""
    raw = _encode(commit)
    if len(raw) > COMMIT_BYTES_MAX:
        raise TooLarge(f"a commit of {len(raw)} bytes is over the limit of {COMMIT_BYTES_MAX}")
    return add_checksum(raw)


def decode_commit(expected: ObjId, raw: bytes) -> CommitObject:
    """Reads a stored body; Corrupt unless checksum and id are right.

    NewerFormat if the checksum is right and the version is one that this Lochan does not know.
    """
    body = memoryview(raw)[:-CHECKSUM_BYTES]
    if crc32(body).to_bytes(CHECKSUM_BYTES, "big") != raw[-CHECKSUM_BYTES:]:
        raise Corrupt(
            f"commit {expected.hex()} does not fit its checksum; its bytes were changed", expected
        )
    try:
        commit = _decode_commit(body)
    except DECODE_FAILURES as error:
        raise unreadable("commit", body, error, TYPE_COMMIT) from None
    if commit_id(commit) != expected:
        raise Corrupt(
            f"commit {expected.hex()} does not hash to its id; its bytes were changed", expected
        )
    return commit


def decode_line(expected: ObjId, raw: bytes) -> CommitLine:
    """Reads of a stored body what a search needs; Corrupt unless its checksum is right.

    The id is not computed: that takes several times as long, and the checksum shows any damage.
    """
    body = memoryview(raw)[:-CHECKSUM_BYTES]
    if crc32(body).to_bytes(CHECKSUM_BYTES, "big") == raw[-CHECKSUM_BYTES:]:
        try:
            line = _decode_line(body)
        except DECODE_FAILURES:
            line = None
        if line is not None and line.version == 1:
            return line
    # It raises the error for what is wrong with it.
    commit = decode_commit(expected, raw)
    raise Corrupt(f"commit {expected.hex()} of sequence {commit.sequence} cannot be searched")


def is_commit(raw: bytes) -> bool:
    """Returns whether a stored object is a commit of any version, by its first bytes."""
    return raw.startswith(_COMMIT_MARK) or is_of_type(raw, TYPE_COMMIT)


def check_any_object(expected: ObjId, raw: bytes) -> None:
    """Raises Corrupt unless the bytes of an object are those of its id; of any type."""
    if is_commit(raw):
        decode_commit(expected, raw)
    else:
        check_object_id(expected, raw)


def jump_sequence(sequence: int) -> int:
    """Returns where the jump of a commit leads: its sequence less the smallest skew-binary part.

    Every number is a sum of numbers 2^k - 1 in which only the smallest may occur twice. Following
    the jump where it does not overshoot, else the parent, reaches any ancestor in O(log n).
    """
    rest = sequence
    part = 0
    while rest:
        part = (1 << (rest + 1).bit_length() - 1) - 1
        rest -= part
    return sequence - part


def encode_tag(tag: TagObject) -> tuple[ObjId, bytes]:
    """Returns id and canonical bytes."""
    raw = _encode(tag)
    if len(raw) > OBJECT_BYTES_MAX:
        raise TooLarge(f"a tag of {len(raw)} bytes is over the limit of {OBJECT_BYTES_MAX}")
    return ObjId(sha256(raw).digest()), raw


def decode_tag(raw: bytes) -> TagObject:
    """Reads a stored tag whose bytes were checked against its id."""
    try:
        tag = _decode_tag(raw)
    except DECODE_FAILURES as error:
        raise unreadable("tag", raw, error, TYPE_TAG) from None
    if len(tag.target) != ID_BYTES or _encode(tag) != raw:
        raise Corrupt("not a stored tag: its bytes are not canonical")
    return tag


def is_tag(raw: bytes) -> bool:
    """Returns whether a stored object is a tag of any version, by its first bytes."""
    return is_of_type(raw, TYPE_TAG)
