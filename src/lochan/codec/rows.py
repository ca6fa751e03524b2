"""Rows that change: references, their moves, settings, the description and list of repositories.

A row is one MessagePack array that begins with its format, then four bytes of checksum, because its
key is no hash of it. A row also contains the name in its key, so that a row that was written under
the key of another one is noticed.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from lochan.base.errors import Corrupt
from lochan.codec.elements import check_flags
from lochan.codec.forms import DECODE_FAILURES, RowForm

_encode: Final = msgspec.msgpack.Encoder().encode


class Move(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A change of a reference that is no commit; kept until it is copied to the log.

    `who` caused it, and had the `roles` then, as authentication found out.
    """

    version: int
    old: bytes
    new: bytes
    kind: str
    who: str
    when_us: int
    operation: bytes
    source: str = ""
    base: bytes = b""
    before: int = 0
    """The version of the move before it in the same incarnation, 0 for the first.

    So a copy that is missing in the log is noticed: versions alone have gaps, because commits
    count too.
    """
    roles: tuple[str, ...] = ()


class MoveRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A move as it was copied to the log, with the reference and incarnation it belongs to."""

    format: Literal[1]
    name: str
    incarnation: int
    move: Move


class ReferenceRow(msgspec.Struct, frozen=True, array_like=True):
    """The row of a branch, a tag or an internal reference.

    `incarnation` is the sequence of the `int/refs` commit that added the name: what was deleted and
    created again is another reference. `operation` names the compare-and-swap that wrote the row.
    """

    format: Literal[1]
    name: str
    kind: str
    pointer: bytes
    version: int
    incarnation: int
    operation: bytes
    created_us: int
    deleted: bool = False
    expires_us: int | None = None
    previous: tuple[tuple[bytes, int], ...] = ()
    moves: tuple[Move, ...] = ()
    staging_token: bytes = b""
    """Where files are staged; empty until the first one is."""
    sealed_tokens: tuple[bytes, ...] = ()
    """Tokens that commits have sealed and none has taken yet, in the order of sealing."""
    concealed: bool = False
    """Whether listings for lakeFS clients leave it out unless they are asked for it."""


class ReferenceElement(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A name in the index of `int/refs`: enough for any server to write its row."""

    kind: str
    pointer: bytes
    incarnation: int
    created_us: int
    operation: bytes
    who: str
    expires_us: int | None = None
    roles: tuple[str, ...] = ()
    concealed: bool = False


class Description(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a repository is: written once, when it is created."""

    format: Literal[1]
    name: str
    default_branch: str
    created_us: int
    boundary_seed: bytes
    token_key: bytes
    operation: bytes = b""
    """That of the claim under which it was created, if the request had an idempotency key."""
    storage: str = ""
    """The URL of the place for the bytes of files; empty for the default place of its servers."""


class RepositoryRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A repository in the list of repositories, and again under its instance id.

    The two rows refer to each other. The list is found by name; a repository whose row in the list
    is lost is found by the other.
    """

    format: Literal[1]
    name: str
    instance: bytes


class DeletedRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A repository that was deleted, or is about to be, until its rows are erased."""

    format: Literal[1]
    name: str
    instance: bytes
    deleted_us: int


class SettingsRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a repository keeps for tools, by type in ascending order; the last writer comes first.

    Written empty when the repository is created, so that a row that is missing is noticed.
    """

    format: Literal[1]
    instance: bytes
    version: int = 0
    writers: tuple[bytes, ...] = ()
    settings: tuple[tuple[str, bytes], ...] = ()
    claim: bytes = b""
    """The key of the last writer's claim, if its request had an idempotency key."""
    replaced: bytes = b""
    """What that writer replaced, empty if that type was never set: its answer."""


class StagingTokenRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A staging token: which branch it was made for, when, and when its records were dropped.

    It is written before the token is used, so that every partition of staged records is found.
    """

    format: Literal[1]
    token: bytes
    name: str
    incarnation: int
    created_us: int
    dropped_us: int = 0
    """When a sweep has dropped the records for the first time, 0 if none has."""


REFERENCE_FORM: Final = RowForm(ReferenceRow, "reference")
REPOSITORY_FORM: Final = RowForm(RepositoryRow, "entry in the list of repositories")
DELETED_FORM: Final = RowForm(DeletedRow, "entry in the list of deleted repositories")
SETTINGS_FORM: Final = RowForm(SettingsRow, "row of settings")
DESCRIPTION_FORM: Final = RowForm(Description, "description of a repository")
MOVE_FORM: Final = RowForm(MoveRow, "move of a reference")
TOKEN_FORM: Final = RowForm(StagingTokenRow, "staging token")

_decode_element: Final = msgspec.msgpack.Decoder(ReferenceElement).decode


def encode_reference_element(element: ReferenceElement) -> bytes:
    """Returns an element of the index of names; the first byte is put, as in every index."""
    return b"\0" + _encode(element)


def decode_reference_element(element: bytes) -> ReferenceElement:
    """Reads an element of the index of names."""
    check_flags(element, 0)
    try:
        return _decode_element(memoryview(element)[1:])
    except DECODE_FAILURES as error:
        raise Corrupt(f"not a stored reference name: {error}") from None
