"""Translates MongoDB's errors to ours, by their codes.

A write is refused, so that nothing was written, only where the code proves it: the member of the
replica set was not the primary when the request came, or the user may not write. Every other error
leaves a write Unknown, as does an error about its write concern: the primary has written, and it is
not known whether the majority keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lochan.base.errors import Bug, Exhausted, LochanError, Unavailable, Unknown

NAMESPACE_EXISTS: Final = 48
NOT_A_REPLICA_SET: Final = 123
DUPLICATE_KEY: Final = 11_000

_REFUSED: Final = frozenset(
    (
        11,  # UserNotFound
        13,  # Unauthorized
        18,  # AuthenticationFailed
        10_058,  # NotWritablePrimary of old servers
        10_107,  # NotWritablePrimary
        13_435,  # NotPrimaryNoSecondaryOk
        13_436,  # NotPrimaryOrSecondary: a member that starts or recovers
    )
)

# The database undid the statement, because it is overloaded.
_OVERLOADED: Final = frozenset(
    (
        365,  # TemporarilyUnavailable
        462,  # IngressRequestRateLimitExceeded
    )
)

_OUR_MISTAKE: Final = frozenset(
    (
        2,  # BadValue
        9,  # FailedToParse
        14,  # TypeMismatch
        22,  # InvalidBSON
        59,  # CommandNotFound
        66,  # ImmutableField
        72,  # InvalidOptions
        10_334,  # BSONObjectTooLarge
        17_419,  # a document would become too large
        40_414,  # a field of the command is missing
        40_415,  # a field of the command is unknown
    )
)

_MESSAGE_CHARACTERS_MAX: Final = 400


def refusal(command: str, error: Mapping[str, Any], *, writes: bool, begun: bool) -> LochanError:
    """Returns the error for an answer with an error code.

    `begun` states that statements before the one that failed were executed, and that this matters.
    """
    code = error.get("code")
    message = f"{command}: {_text(error)}"
    if code in _OUR_MISTAKE:
        return Bug(f"MongoDB refused a request: {message}")
    if writes and (begun or code not in _REFUSED | _OVERLOADED):
        return Unknown(f"MongoDB failed during a write: {message}")
    if code in _OVERLOADED:
        return Exhausted(f"MongoDB is overloaded: {message}")
    return Unavailable(f"MongoDB did not execute a request: {message}")


def unconfirmed(command: str, error: Mapping[str, Any]) -> Unknown:
    """Returns the error for a write that the majority has not confirmed."""
    return Unknown(f"the majority of MongoDB has not confirmed a write: {command}: {_text(error)}")


def no_answer(command: str, message: str, *, writes: bool, sent: bool) -> LochanError:
    """Returns the error for a request without a whole answer."""
    message = f"{command}: {message[:_MESSAGE_CHARACTERS_MAX]}"
    if writes and sent:
        return Unknown(f"the connection to MongoDB was lost during a write: {message}")
    return Unavailable(f"MongoDB cannot be reached: {message}")


def _text(error: Mapping[str, Any]) -> str:
    """Returns the server's message; it contains no values of documents but for a duplicate key."""
    about = str(error.get("errmsg", ""))[:_MESSAGE_CHARACTERS_MAX]
    return f"{about} ({error.get('codeName', 'code')} {error.get('code')})"
