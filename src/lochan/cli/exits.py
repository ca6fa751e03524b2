"""How errors leave the house: an exit code for each reaction, and a hint on what to do.

A script may trust the codes: they are only ever added to. `docs/cli.md` lists them.
"""

from __future__ import annotations

from typing import Final, TypeVar

from lochan.base.errors import (
    AlreadyExists,
    Bug,
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
    ReferenceNotFound,
    StoreLocked,
    Unavailable,
    Unknown,
)
from lochan.model.results import ContentConflict

_Value = TypeVar("_Value")

DONE: Final = 0
FAILED: Final = 1
CALLED_WRONGLY: Final = 2
CONFLICT: Final = 3
NOT_FOUND: Final = 4
UNKNOWN: Final = 5
UNAVAILABLE: Final = 6
DENIED: Final = 7
DAMAGED: Final = 8
NEWER_FORMAT: Final = 9

MEANINGS: Final[dict[int, str]] = {
    DONE: "done",
    FAILED: "failed, for a reason that has no code of its own",
    CALLED_WRONGLY: "called wrongly: the same call will never succeed",
    CONFLICT: "conflict: somebody else was first, or keys stand against the change",
    NOT_FOUND: "what was named does not exist",
    UNKNOWN: "unknown outcome: the change may or may not have taken effect",
    UNAVAILABLE: "not available now, without any effect: try again later",
    DENIED: "not allowed",
    DAMAGED: "stored data is damaged",
    NEWER_FORMAT: "stored data has a newer format: upgrade Lochan",
}

# The nearest class of the tree counts, so a more exact one may have a code of its own.
_CODES: Final[dict[type[LochanError], int]] = {
    LochanError: FAILED,
    NotFound: NOT_FOUND,
    AlreadyExists: CONFLICT,
    Conflict: CONFLICT,
    Invalid: CALLED_WRONGLY,
    Denied: DENIED,
    Exhausted: UNAVAILABLE,
    Unknown: UNKNOWN,
    Unavailable: UNAVAILABLE,
    Corrupt: DAMAGED,
    NewerFormat: NEWER_FORMAT,
    Bug: FAILED,
}

_HINTS: Final[dict[type[LochanError], str]] = {
    ReferenceNotFound: "`lochan branch` and `lochan tag` list what there is",
    ContentNotFound: "`lochan content list` lists the keys",
    AlreadyExists: "choose another name, or delete the old one first",
    HeadConflict: "read the branch again; without --expected the present head is taken",
    KeysConflict: "look at what others changed (`lochan diff`, `lochan log`), then try again",
    Conflict: "read again, then try again",
    Exhausted: "try again later",
    Unknown: "`lochan log` and `lochan reflog` show whether it took effect; look before repeating",
    StoreLocked: "a running server has the store: stop it, or talk to it with --url",
    Unavailable: "`lochan serve` starts a server; --store opens a store without one",
    Corrupt: "stop writing to this store; `lochan check` tells what is damaged",
    NewerFormat: "upgrade Lochan to the version that wrote it; nothing is damaged",
    Bug: "this is our fault; please report it with the command that led here",
}


def exit_code(error: LochanError) -> int:
    """Returns the code with which a command that met this error leaves."""
    return _nearest(_CODES, error, FAILED)


def hint(error: LochanError) -> str:
    """Returns what to do about an error, '' where its message says all."""
    if isinstance(error, KeysConflict) and any(_is_absent(one) for one in error.details):
        return "make the namespace first; `lochan content put -p` makes missing ones"
    return _nearest(_HINTS, error, "")


def _is_absent(conflict: object) -> bool:
    return isinstance(conflict, ContentConflict) and conflict.kind == "NAMESPACE_ABSENT"


def _nearest(table: dict[type[LochanError], _Value], error: LochanError, default: _Value) -> _Value:
    for kind in type(error).__mro__:
        if kind in table:
            return table[kind]
    return default
