"""The conflicts of a write: their messages, with the contents of all sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from lochan.base.errors import KeysConflict
from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, table_elements
from lochan.catalog.contents import NOTHING_UNPUBLISHED, load_contents
from lochan.catalog.types import ContentTypes
from lochan.kernel.context import RepositoryContext
from lochan.kernel.merge_choices import MergeConflict
from lochan.kernel.plan import ConflictKind, KeyConflict, compare_elements
from lochan.model.commits import ContentKey
from lochan.model.contents import Content
from lochan.model.results import ContentConflict

NAMESPACE_ABSENT: Final = "NAMESPACE_ABSENT"
NOT_A_NAMESPACE: Final = "NOT_A_NAMESPACE"
NAMESPACE_NOT_EMPTY: Final = "NAMESPACE_NOT_EMPTY"

_WORDS: Final = {
    ConflictKind.KEY_EXISTS: "key '{key}' already exists",
    ConflictKind.KEY_DOES_NOT_EXIST: "key '{key}' does not exist",
    ConflictKind.PAYLOAD_DIFFERS: (
        "payload of existing and expected content for key '{key}' is different"
    ),
    ConflictKind.CONTENT_ID_DIFFERS: (
        "content IDs of existing and expected content for key '{key}' are different"
    ),
    ConflictKind.VALUE_DIFFERS: (
        "values of existing and expected content for key '{key}' are different"
    ),
}

_FILE_WORDS: Final = {
    **_WORDS,
    ConflictKind.KEY_EXISTS: "file '{key}' exists",
    ConflictKind.KEY_DOES_NOT_EXIST: "file '{key}' does not exist",
    ConflictKind.VALUE_DIFFERS: "existing and expected file '{key}' are different",
}


class Sides(msgspec.Struct, frozen=True, gc=False):
    """A conflict with the elements of its sides, whose contents are not loaded yet."""

    key: bytes
    kind: ConflictKind
    base: bytes | None
    source: bytes | None
    target: bytes | None


def text_of(key: ContentKey) -> str:
    """Returns a key as messages show it."""
    return ".".join(key)


def key_of(raw: bytes) -> ContentKey:
    """Returns a key of either universe as elements; a path is one element."""
    if raw[0] == Universe.TABLES:
        return table_elements(Key(raw))
    return (raw[1:].decode("utf-8", "replace"),)


def sides_of(conflicts: Iterable[KeyConflict], sources: dict[bytes, bytes | None]) -> list[Sides]:
    """Adds to the kernel's conflicts what the commit would have put there."""
    return [
        Sides(one.key, one.kind, one.expected, sources.get(one.key), one.current)
        for one in conflicts
    ]


def in_words(
    context: RepositoryContext,
    types: ContentTypes,
    conflicts: Sequence[Sides],
    made: dict[bytes, Content],
    unpublished: Mapping[ObjId, bytes],
) -> list[ContentConflict]:
    """Returns conflicts with messages and contents; `made` has the writer's, by element."""
    elements = {
        element
        for one in conflicts
        for element in (one.base, one.source, one.target)
        if element is not None and element not in made and one.key[0] == Universe.TABLES
    }
    loaded = {**load_contents(context, types, sorted(elements), unpublished), **made}
    described = []
    for one in conflicts:
        key = key_of(one.key)
        path = None if one.key[0] == Universe.TABLES else key[0]
        described.append(
            ContentConflict(
                one.kind.value,
                key,
                (_WORDS if path is None else _FILE_WORDS)[one.kind].format(key=text_of(key)),
                loaded.get(one.base or b""),
                loaded.get(one.source or b""),
                loaded.get(one.target or b""),
                path,
            )
        )
    return described


def refuse(conflicts: Sequence[ContentConflict]) -> KeysConflict:
    """Returns the error that reports all of them."""
    if len(conflicts) == 1:
        message = conflicts[0].message
        message = f"{message[0].upper()}{message[1:]}."
    else:
        listed = ", ".join(one.message for one in conflicts[:100])
        message = f"There are multiple conflicts that prevent committing the operations: {listed}."
    return KeysConflict(message, tuple(conflicts))


def merge_conflict(
    context: RepositoryContext,
    types: ContentTypes,
    conflicts: Sequence[MergeConflict],
    made: Mapping[bytes, Content],
    unpublished: Mapping[ObjId, bytes] = NOTHING_UNPUBLISHED,
) -> KeysConflict:
    """Returns the error that reports the conflicts of a merge in the kernel."""
    sides = [
        Sides(
            one.key,
            compare_elements(one.key, one.expected, one.target) or ConflictKind.VALUE_DIFFERS,
            one.base,
            one.source,
            one.target,
        )
        for one in conflicts
    ]
    return refuse(in_words(context, types, sides, dict(made), unpublished))
