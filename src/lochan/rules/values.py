"""What the variables of a filter hold: values of the model as the evaluator takes them.

Only the fields that a filter names are made, because handing a value over costs more than judging
it. What an element does not have is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, TypeVar

from lochan.base.limits.policies import CONDITION_ROLES_MAX
from lochan.base.times import readable_time
from lochan.model.commits import CommitMeta, ContentKey, Delete, Put
from lochan.model.contents import type_of
from lochan.model.references import Reference, ReferenceMetadata

_Subject = TypeVar("_Subject")
_Make = Callable[[_Subject], object]

Shape = Callable[[_Subject], dict[str, object]]
"""Turns one value of the model into what the evaluator sees of it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_COMMIT: Final = CommitMeta(message="")
DOT_INSIDE: Final = "\x1d"
"""What a dot inside an element of a key is, where elements are joined by dots."""


class FilterKind(Enum):
    """What a filter judges; it decides which variables there are."""

    REFERENCES = "references"
    LOG = "log"
    ENTRIES = "entries"
    DIFF = "diff"
    ACCESS = "access"


def _instant(time_us: int | None) -> str | None:
    """Returns a time as text, as clients see it."""
    if time_us is None:
        return None
    return f"{(_EPOCH + timedelta(microseconds=readable_time(time_us))).isoformat()[:-6]}Z"


def _first(values: tuple[str, ...]) -> str:
    return values[0] if values else ""


def _path(elements: ContentKey) -> str:
    """Returns elements in one text; a dot inside one is a control character, as Nessie has it."""
    return ".".join([element.replace(".", DOT_INSIDE) for element in elements])


_KEY: Final[dict[str, _Make[ContentKey]]] = {
    "key": ".".join,
    "encodedKey": _path,
    "keyElements": list,
    "namespace": lambda key: _path(key[:-1]),
    "namespaceElements": lambda key: list(key[:-1]),
    "name": lambda key: key[-1],
}

_COMMIT: Final[dict[str, _Make[CommitMeta]]] = {
    "hash": lambda meta: meta.hash,
    "committer": lambda meta: meta.committer,
    "author": lambda meta: _first(meta.authors),
    "authors": lambda meta: list(meta.authors),
    "signedOffBy": lambda meta: _first(meta.signed_off_by),
    "allSignedOffBy": lambda meta: list(meta.signed_off_by),
    "message": lambda meta: meta.message,
    "commitTime": lambda meta: _instant(meta.commit_time_us),
    "authorTime": lambda meta: _instant(meta.author_time_us),
    "properties": lambda meta: {name: values[0] for name, values in meta.properties if values},
    "allProperties": lambda meta: {name: list(values) for name, values in meta.properties},
    "parentCommitHashes": lambda meta: list(meta.parents),
}


def _shape(makes: Mapping[str, _Make[_Subject]], fields: Iterable[str]) -> Shape[_Subject]:
    pairs = [(field, makes[field]) for field in sorted(fields)]

    def shape(subject: _Subject) -> dict[str, object]:
        return {field: value for field, make in pairs if (value := make(subject)) is not None}

    return shape


_whole_commit: Final = _shape(_COMMIT, _COMMIT)

_METADATA: Final[dict[str, _Make[ReferenceMetadata]]] = {
    "numCommitsAhead": lambda metadata: metadata.ahead,
    "numCommitsBehind": lambda metadata: metadata.behind,
    "commitMetaOfHEAD": lambda metadata: metadata.head and _whole_commit(metadata.head),
    "commonAncestorHash": lambda metadata: metadata.common_ancestor,
    "numTotalCommits": lambda metadata: metadata.total,
}

_whole_metadata: Final = _shape(_METADATA, _METADATA)

_REFERENCE: Final[dict[str, _Make[Reference]]] = {
    "type": lambda reference: reference.kind,
    "name": lambda reference: reference.name,
    "hash": lambda reference: reference.hash,
    "metadata": lambda reference: reference.metadata and _whole_metadata(reference.metadata),
}

_ENTRY_TYPE: Final = "contentType"

LONG_FIELDS: Final = frozenset(
    {"message", "properties", "allProperties", "metadata", "commitMetaOfHEAD"}
)
"""Fields with texts that users may make as long as a commit allows; others are short."""


def _content(operation: Put | Delete) -> dict[str, str]:
    """Returns type and id; both empty for a removal, so that asking for them is no error."""
    if isinstance(operation, Delete):
        return {"type": "", "id": ""}
    return {"type": type_of(operation.content), "id": operation.content.id or ""}


_OPERATION: Final[dict[str, _Make[Put | Delete]]] = {
    "type": lambda operation: "PUT" if isinstance(operation, Put) else "DELETE",
    "content": _content,
}

OPERATION_FIELDS: Final = frozenset(_KEY) | frozenset(_OPERATION)
"""What an operation of a commit has."""

VARIABLES: Final[dict[FilterKind, dict[str, frozenset[str]]]] = {
    FilterKind.REFERENCES: {
        "ref": frozenset(_REFERENCE),
        "refMeta": frozenset(_METADATA),
        "metadata": frozenset(_METADATA),
        "commit": frozenset(_COMMIT),
        "refType": frozenset(),
    },
    FilterKind.LOG: {"commit": frozenset(_COMMIT), "operations": OPERATION_FIELDS},
    FilterKind.ENTRIES: {"entry": frozenset(_KEY) | {_ENTRY_TYPE}},
    FilterKind.DIFF: {"key": frozenset(_KEY)},
    FilterKind.ACCESS: dict.fromkeys(
        ("op", "role", "roles", "ref", "path", "repository"), frozenset()
    ),
}
"""The variables of each kind and their fields; one without fields is a text, `roles` are texts."""

LISTS: Final[dict[FilterKind, dict[str, int]]] = {FilterKind.ACCESS: {"roles": CONDITION_ROLES_MAX}}
"""Variables that are lists of texts, with the number of items up to which they are looped over."""

NOT_HERE: Final[dict[FilterKind, dict[str, str]]] = {
    FilterKind.ACCESS: {
        _ENTRY_TYPE: "decisions are made before contents are read; decide by `path` instead"
    }
}
"""Variables that other systems have and that cannot be had here, with the reason."""


def key_shape(fields: Iterable[str]) -> Shape[ContentKey]:
    """Returns how to make a key with these fields."""
    return _shape(_KEY, fields)


def entry_shape(fields: frozenset[str]) -> Callable[[ContentKey, str], dict[str, object]]:
    """Returns how to make an entry of its key and the name of its type."""
    of_key = key_shape(fields - {_ENTRY_TYPE})
    if _ENTRY_TYPE not in fields:
        return lambda key, _: of_key(key)
    return lambda key, type_name: {**of_key(key), _ENTRY_TYPE: type_name}


def operation_shape(fields: frozenset[str]) -> Shape[Put | Delete]:
    """Returns how to make an operation with these fields."""
    of_key = key_shape(fields & frozenset(_KEY))
    of_own = _shape(_OPERATION, fields & frozenset(_OPERATION))
    return lambda operation: {**of_key(operation.key), **of_own(operation)}


def commit_shape(fields: Iterable[str]) -> Shape[CommitMeta]:
    """Returns how to make a commit with these fields."""
    return _shape(_COMMIT, fields)


def reference_shape(named: Mapping[str, frozenset[str]]) -> Shape[Reference]:
    """Returns how to make all variables of a reference that a filter names."""
    makes: dict[str, _Make[Reference]] = {}
    if "refType" in named:
        makes["refType"] = lambda reference: reference.kind
    if "ref" in named:
        makes["ref"] = _shape(_REFERENCE, named["ref"])
    if "commit" in named:
        of_commit = commit_shape(named["commit"])
        makes["commit"] = lambda reference: of_commit(_head(reference))
    for name in ("refMeta", "metadata"):
        if name in named:
            makes[name] = _metadata_maker(named[name])
    return _shape(makes, makes)


def _metadata_maker(fields: frozenset[str]) -> _Make[Reference]:
    of_metadata = _shape(_METADATA, fields)
    return lambda one: {} if one.metadata is None else of_metadata(one.metadata)


def _head(reference: Reference) -> CommitMeta:
    """Returns the last commit; one without words for a branch that has none."""
    return (reference.metadata and reference.metadata.head) or _NO_COMMIT
