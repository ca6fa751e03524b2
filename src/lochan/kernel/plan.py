"""The plan of a commit, and the conflicts that prevent it.

A plan names its operations with what each expects to find. All conflicts of a plan are collected
and reported together; nothing is written unless there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Protocol

import msgspec

from lochan.base.errors import Invalid, InvalidKey, KeysConflict, TooLarge
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.base.limits.commits import HEADERS_BYTES_MAX, MESSAGE_BYTES_MAX
from lochan.base.limits.contents import KEY_BYTES_MAX, PATH_BYTES_MAX
from lochan.codec.commits import Headers
from lochan.codec.elements import encode_text
from lochan.index.bulk import ChangeBatch
from lochan.index.difference import Difference
from lochan.index.node import Change


class Anything(Enum):
    """No expectation: the key may hold anything or nothing."""

    ANY = "any"


ANY: Final = Anything.ANY

# Both include the universe byte: the limit of tables counts it already, that of files does not.
_KEY_BYTES_MAX: Final = {
    bytes((Universe.TABLES,)): KEY_BYTES_MAX,
    bytes((Universe.FILES,)): PATH_BYTES_MAX + 1,
}


class Operation(msgspec.Struct, frozen=True, gc=False):
    """A put, or a removal if `element` is None.

    `expected` is the element that must be there now, None if the key must be free.
    """

    key: bytes
    element: bytes | None
    expected: bytes | Anything | None = ANY


class Unchanged(msgspec.Struct, frozen=True, gc=False):
    """A key that the commit leaves alone but relies on."""

    key: bytes
    expected: bytes | None


class Digested(msgspec.Struct, frozen=True, gc=False):
    """What a commit records of its operations: their digest, and their keys where they are few."""

    digest: bytes
    own: tuple[bytes, ...] | None


class BulkChanges(Protocol):
    """Very many changes of files, which are read anew each time that they are needed.

    They expect nothing. One that leaves its key as the head has it is no change.
    """

    def batches(self) -> Iterable[ChangeBatch]:
        """Returns the changes, in ascending order of their keys."""
        ...

    def have_one_of(self, keys: Sequence[bytes]) -> bool:
        """Returns whether one of these keys is among them, with an effect or without."""
        ...


class Graft(msgspec.Struct, frozen=True):
    """A commit that was built on an earlier head, and what the head has changed since.

    `changes` are those of the commit in ascending order, `roots` those of the trees that were
    built. `moved` are the differences between the heads, without keys of the commit. The changes of
    files that came in bulk are not there.
    """

    changes: Mapping[Universe, Sequence[Change]]
    roots: Mapping[Universe, ObjId | None]
    digested: Digested
    unchanged_root: bytes | None
    is_bulk: bool = False
    moved: Sequence[Difference] = ()


class CommitPlan(msgspec.Struct, frozen=True):
    """One commit, to be made on the head at the time of publishing."""

    operations: Sequence[Operation]
    message: str
    headers: Headers = ()
    hidden: Headers = ()
    unchanged: Sequence[Unchanged] = ()
    merged: tuple[ObjId, ...] = ()
    """Further parents."""

    objects: Sequence[tuple[ObjId, bytes]] = ()
    """Values to be stored with it."""

    current: Mapping[bytes, bytes | None] | None = None
    """What all keys of the plan hold on this very head, if the planner has compared them."""

    bulk: BulkChanges | None = None
    """Very many changes of files; then all operations are on tables."""

    graft: Graft | None = None
    """What was built of this commit on an earlier head, see `preparation.py`."""

    taken: tuple[bytes, ...] = ()
    """Sealed tokens whose staged files are in it; they leave the branch's row together with it."""


class TokenPlan(msgspec.Struct, frozen=True, gc=False):
    """No commit: staged files that are as the head has them; only their tokens leave the row."""

    taken: tuple[bytes, ...]


Plan = CommitPlan | TokenPlan


class OutdatedRow(Exception):
    """A proposal has seen a later row of its branch than the one that it is planned on."""


class ConflictKind(Enum):
    """In which way a key is not as expected."""

    KEY_EXISTS = "KEY_EXISTS"
    KEY_DOES_NOT_EXIST = "KEY_DOES_NOT_EXIST"
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"
    CONTENT_ID_DIFFERS = "CONTENT_ID_DIFFERS"
    VALUE_DIFFERS = "VALUE_DIFFERS"


class KeyConflict(msgspec.Struct, frozen=True, gc=False):
    """One key that is not as expected, with both sides."""

    key: bytes
    kind: ConflictKind
    expected: bytes | None
    current: bytes | None


def keys_conflict(conflicts: Sequence[KeyConflict]) -> KeysConflict:
    """Returns the error that reports all conflicts of a commit."""
    kinds = ", ".join(sorted({conflict.kind.value for conflict in conflicts}))
    count = "1 key is" if len(conflicts) == 1 else f"{len(conflicts)} keys are"
    message = f"{count} not as expected ({kinds}); read again"
    return KeysConflict(message, tuple(conflicts))


def check_plan(plan: CommitPlan) -> None:
    """Refuses plans that fit no head: a key twice, an unknown universe, a key that is too long."""
    keys = [operation.key for operation in plan.operations]
    if len(set(keys)) != len(keys):
        raise Invalid("a commit names each key once")
    keys += [unchanged.key for unchanged in plan.unchanged]
    for key in keys:
        bytes_max = _KEY_BYTES_MAX.get(key[:1])
        if bytes_max is None:
            raise Invalid("a key starts with the byte of its universe")
        if not 1 < len(key) <= bytes_max:
            raise InvalidKey(f"a key of this universe has 2 to {bytes_max} bytes, not {len(key)}")


def check_texts(plan: CommitPlan) -> None:
    """Refuses texts that are too long or no text; nearly all are short and plain."""
    message = plan.message
    if len(message) > MESSAGE_BYTES_MAX:
        raise TooLarge(f"a message has at most {MESSAGE_BYTES_MAX} bytes")
    if not message.isascii() and len(encode_text(message)) > MESSAGE_BYTES_MAX:
        raise TooLarge(f"a message has at most {MESSAGE_BYTES_MAX} bytes")
    for name, values in plan.hidden:
        for text in (name, *values):
            if not text.isascii():
                encode_text(text)
    size = 0
    for name, values in plan.headers:
        for text in (name, *values):
            size += len(text)
            if not text.isascii():
                encode_text(text)
    if size > HEADERS_BYTES_MAX:
        raise TooLarge(f"the headers of a commit have at most {HEADERS_BYTES_MAX} characters")


def checked_batches(bulk: BulkChanges) -> Iterator[ChangeBatch]:
    """Yields changes that come in bulk; refuses keys as `check_plan` does.

    Their order is checked by the index.
    """
    first, bytes_max = bytes((Universe.FILES,)), _KEY_BYTES_MAX[bytes((Universe.FILES,))]
    for batch in bulk.batches():
        keys = batch.keys
        if not (keys[0].startswith(first) and keys[-1].startswith(first)):
            raise Invalid("changes that come in bulk are of files")
        if first in keys or max(map(len, keys)) > bytes_max:
            raise InvalidKey(f"a key of this universe has 2 to {bytes_max} bytes")
        yield batch


def find_conflicts(plan: CommitPlan, current: Mapping[bytes, bytes | None]) -> list[KeyConflict]:
    """Returns a conflict for every key that does not hold what the plan expects."""
    conflicts = []
    for operation in plan.operations:
        element, expected = current[operation.key], operation.expected
        if isinstance(expected, Anything):
            # A removal expects at least that the key exists.
            missing = operation.element is None and element is None
            kind = ConflictKind.KEY_DOES_NOT_EXIST if missing else None
            # ANY is no element that a conflict could show.
            expected = None
        else:
            kind = compare_elements(operation.key, expected, element)
        if kind is not None:
            conflicts.append(KeyConflict(operation.key, kind, expected, element))
    for unchanged in plan.unchanged:
        element = current[unchanged.key]
        kind = compare_elements(unchanged.key, unchanged.expected, element)
        if kind is not None:
            conflicts.append(KeyConflict(unchanged.key, kind, unchanged.expected, element))
    return conflicts


def compare_elements(
    key: bytes, expected: bytes | None, current: bytes | None
) -> ConflictKind | None:
    """Returns how the present element differs from the expected one; None if it does not."""
    if expected == current:
        return None
    if expected is None:
        return ConflictKind.KEY_EXISTS
    if current is None:
        return ConflictKind.KEY_DOES_NOT_EXIST
    if key[0] == Universe.TABLES:
        if expected[1] != current[1]:
            return ConflictKind.PAYLOAD_DIFFERS
        if expected[34:] != current[34:]:
            return ConflictKind.CONTENT_ID_DIFFERS
    return ConflictKind.VALUE_DIFFERS
