"""Errors on the wire: the status and the code of each kind, and the body of a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from lochan.base.errors import (
    AlreadyExists,
    Bug,
    ConditionFailed,
    Conflict,
    ContentNotFound,
    Corrupt,
    Denied,
    Exhausted,
    Invalid,
    KeyReused,
    LochanError,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NewerFormat,
    NotABranch,
    NotFound,
    NothingToCommit,
    PathNotFound,
    RangeNotSatisfiable,
    ReferenceNotFound,
    StagedWork,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.model.results import ContentConflict
from lochan.wire.contents import ContentJson, content_out, optional_in
from lochan.wire.keys import KeyJson

ErrorCodes = Mapping[type[LochanError], tuple[int, str]]
"""Status and code of each kind of error; a kind that is not here has those of its parent."""

ERROR_CODES: Final[ErrorCodes] = {
    NotFound: (404, "NOT_FOUND"),
    ReferenceNotFound: (404, "REFERENCE_NOT_FOUND"),
    ContentNotFound: (404, "CONTENT_NOT_FOUND"),
    NamespaceNotFound: (404, "NAMESPACE_NOT_FOUND"),
    PathNotFound: (404, "PATH_NOT_FOUND"),
    AlreadyExists: (409, "REFERENCE_ALREADY_EXISTS"),
    NamespaceExists: (409, "NAMESPACE_ALREADY_EXISTS"),
    Conflict: (409, "REFERENCE_CONFLICT"),
    NamespaceNotEmpty: (409, "NAMESPACE_NOT_EMPTY"),
    ConditionFailed: (412, "CONDITION_FAILED"),
    StagedWork: (409, "STAGED_WORK"),
    Invalid: (400, "BAD_REQUEST"),
    KeyReused: (422, "IDEMPOTENCY_KEY_REUSED"),
    NothingToCommit: (400, "NOTHING_TO_COMMIT"),
    RangeNotSatisfiable: (416, "RANGE_NOT_SATISFIABLE"),
    Denied: (403, "FORBIDDEN"),
    Unauthenticated: (401, "UNAUTHORIZED"),
    Exhausted: (503, "RETRIES_EXHAUSTED"),
    TooManyRequests: (429, "TOO_MANY_REQUESTS"),
    Unavailable: (503, "SERVICE_UNAVAILABLE"),
    Unknown: (504, "OUTCOME_UNKNOWN"),
    Corrupt: (500, "UNKNOWN"),
    NewerFormat: (501, "NEWER_FORMAT"),
    Bug: (500, "UNKNOWN"),
    LochanError: (500, "UNKNOWN"),
}
"""The codes of Nessie's API, whose words for names that are taken are about references."""

ACCESS_ERROR_CODES: Final[ErrorCodes] = {
    **ERROR_CODES,
    AlreadyExists: (409, "ALREADY_EXISTS"),
    Conflict: (409, "CONFLICT"),
}
"""The codes where names are those of users, groups and policies."""

FILE_ERROR_CODES: Final[ErrorCodes] = {
    **ACCESS_ERROR_CODES,
    NotABranch: (400, "NOT_A_BRANCH"),
    TooLarge: (413, "TOO_LARGE"),
}
"""The codes where names are paths of files."""


class ReferenceConflicts(msgspec.Struct, frozen=True, tag="REFERENCE_CONFLICTS", tag_field="type"):
    """All conflicts of a write."""

    conflicts: list[ConflictJson]


class ContentKeyDetails(
    msgspec.Struct, frozen=True, tag="CONTENT_KEY", tag_field="type", rename="camel"
):
    """The key that an error is about."""

    content_key: KeyJson


class ErrorJson(msgspec.Struct, frozen=True, rename="camel"):
    """What went wrong; details only for clients of API spec 2 and later."""

    status: int
    reason: str
    message: str
    error_code: str
    server_stack_trace: str | None = None
    error_details: ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType = msgspec.UNSET


class ConflictJson(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A conflict; the contents of the three sides where they are known.

    `path` is that of a file, for clients that are not Nessie's.
    """

    conflict_type: str
    key: KeyJson | None
    message: str
    base: ContentJson | msgspec.UnsetType = msgspec.UNSET
    source: ContentJson | msgspec.UnsetType = msgspec.UNSET
    target: ContentJson | msgspec.UnsetType = msgspec.UNSET
    path: str | msgspec.UnsetType = msgspec.UNSET


def conflict_out(conflict: ContentConflict) -> ConflictJson:
    """Returns a conflict as JSON."""
    return ConflictJson(
        conflict.kind,
        None if conflict.key is None else KeyJson(conflict.key),
        conflict.message,
        msgspec.UNSET if conflict.base is None else content_out(conflict.base),
        msgspec.UNSET if conflict.source is None else content_out(conflict.source),
        msgspec.UNSET if conflict.target is None else content_out(conflict.target),
        msgspec.UNSET if conflict.path is None else conflict.path,
    )


def conflict_v1(conflict: ContentConflict) -> ConflictJson:
    """Returns a conflict as version 1 shows it: without the contents of the sides."""
    key = None if conflict.key is None else KeyJson(conflict.key)
    return ConflictJson(conflict.kind, key, conflict.message)


def conflict_in(conflict: ConflictJson) -> ContentConflict:
    """Returns the conflict that JSON describes."""
    return ContentConflict(
        conflict.conflict_type,
        None if conflict.key is None else conflict.key.elements,
        conflict.message,
        optional_in(None if conflict.base is msgspec.UNSET else conflict.base),
        optional_in(None if conflict.source is msgspec.UNSET else conflict.source),
        optional_in(None if conflict.target is msgspec.UNSET else conflict.target),
        None if conflict.path is msgspec.UNSET else conflict.path,
    )
