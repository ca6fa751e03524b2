"""The exit code and the hint for each class of error.

Scripts may rely on the codes: new ones are added, none is changed. `docs/cli.md` lists them.
"""

from __future__ import annotations

from typing import Final, TypeVar

from lochan.base.errors import (
    AlreadyExists,
    Bug,
    ConditionFailed,
    Conflict,
    ContentNotFound,
    Corrupt,
    Denied,
    Exhausted,
    HeadConflict,
    Invalid,
    KeysConflict,
    LochanError,
    NewerFormat,
    NotFound,
    NothingToCommit,
    PathNotFound,
    ReferenceNotFound,
    StagedWork,
    StoreLocked,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from lochan.model.results import ContentConflict

_Value = TypeVar("_Value")

DONE: Final = 0
FAILED: Final = 1
INVALID: Final = 2
CONFLICT: Final = 3
NOT_FOUND: Final = 4
UNKNOWN: Final = 5
UNAVAILABLE: Final = 6
DENIED: Final = 7
DAMAGED: Final = 8
NEWER_FORMAT: Final = 9
UNAUTHENTICATED: Final = 10

MEANINGS: Final[dict[int, str]] = {
    DONE: "done",
    FAILED: "failed, for a reason that has no code of its own",
    INVALID: "invalid call: the same call will never succeed",
    CONFLICT: "conflict: the branch or the keys were changed by another commit",
    NOT_FOUND: "a branch, tag, commit or key does not exist",
    UNKNOWN: "unknown outcome: the change may or may not have taken effect",
    UNAVAILABLE: "not available; nothing was changed: try again later",
    DENIED: "not allowed",
    DAMAGED: "stored data is damaged",
    NEWER_FORMAT: "stored data has a newer format: upgrade Lochan",
    UNAUTHENTICATED: "no credentials, or none that are valid: log in",
}

# The entry of the nearest base class applies, so a subclass may have a code of its own.
_CODES: Final[dict[type[LochanError], int]] = {
    LochanError: FAILED,
    NotFound: NOT_FOUND,
    AlreadyExists: CONFLICT,
    Conflict: CONFLICT,
    Invalid: INVALID,
    Denied: DENIED,
    Unauthenticated: UNAUTHENTICATED,
    Exhausted: UNAVAILABLE,
    Unknown: UNKNOWN,
    Unavailable: UNAVAILABLE,
    Corrupt: DAMAGED,
    NewerFormat: NEWER_FORMAT,
    Bug: FAILED,
}

_HINTS: Final[dict[type[LochanError], str]] = {
    ReferenceNotFound: "`lochan branch` and `lochan tag` list the names",
    ContentNotFound: "`lochan content list` lists the keys",
    PathNotFound: "`lochan fs ls` lists the files",
    AlreadyExists: "choose another name, or delete the old one first",
    HeadConflict: "read the branch again; without --expected the current head is used",
    KeysConflict: "`lochan log -o` shows which commit changed the keys; then try again",
    ConditionFailed: "the file is there already, or was changed: read it again",
    StagedWork: "commit or reset what is staged, or drop it with --discard-staged",
    NothingToCommit: "`lochan fs diff BRANCH:` shows what is staged; --allow-empty commits nothing",
    Conflict: "read the current state, then try again",
    # The client's message names the server and how to log in to it.
    Unauthenticated: "",
    Denied: "an administrator can allow it; `lochan access explain` shows which rule decides",
    Exhausted: "try again later",
    Unknown: "before a retry, look in `lochan log` and `lochan reflog` whether it took effect",
    StoreLocked: "a running server has the store open: stop it, or connect to it with --url",
    Unavailable: "`lochan serve` starts a server; --store opens a store without one",
    Corrupt: "stop writing to this store; `lochan check` reports what is damaged",
    NewerFormat: "upgrade Lochan to the version that wrote it; nothing is damaged",
    Bug: "this is a bug in Lochan; please report it with the command that was run",
}


def exit_code(error: LochanError) -> int:
    """Returns the exit code of a command that failed with this error."""
    return _nearest(_CODES, error, FAILED)


def hint(error: LochanError) -> str:
    """Returns what to do about an error, '' if its message is enough."""
    details = error.details if isinstance(error, KeysConflict) else ()
    if any(
        isinstance(each, ContentConflict) and each.kind == "NAMESPACE_ABSENT" for each in details
    ):
        return "create the namespace first; `lochan content put -p` creates missing ones"
    return _nearest(_HINTS, error, "")


def _nearest(table: dict[type[LochanError], _Value], error: LochanError, default: _Value) -> _Value:
    return next((table[kind] for kind in type(error).__mro__ if kind in table), default)
