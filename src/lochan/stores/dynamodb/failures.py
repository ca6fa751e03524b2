"""Translates DynamoDB's errors to ours, by their codes.

A refusal proves that nothing was written, except the codes of the class "server error": after those
a write may have taken effect (Unknown). A lost answer is Unknown for a write, unless no connection
was made at all.
"""

from __future__ import annotations

from typing import Any, Final

from lochan.base.errors import Bug, Corrupt, LochanError, Unavailable, Unknown

# The database refuses work for now; nothing was done.
THROTTLED: Final = frozenset(
    (
        "LimitExceededException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingError",
        "ThrottlingException",
    )
)

# Another transaction has one of the rows; nothing was done.
CONFLICTS: Final = frozenset(
    ("ReplicatedWriteConflictException", "TransactionConflict", "TransactionConflictException")
)

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
TRANSACTION_CANCELLED: Final = "TransactionCanceledException"
TABLE_MISSING: Final = "ResourceNotFoundException"
TABLE_EXISTS: Final = "ResourceInUseException"

_OUR_MISTAKE: Final = frozenset(
    (
        "IdempotentParameterMismatchException",
        "ItemCollectionSizeLimitExceededException",
        "SerializationException",
        "ValidationError",
        "ValidationException",
    )
)

# Everything else with a status from 400 to 499 was refused before it was done, such as a signature
# that is not accepted.
_REFUSED: Final = range(400, 500)

# The same code is used for a transaction that another call with our token may still be doing.
_IN_PROGRESS: Final = "TransactionInProgressException"


def code_of(response: dict[str, Any]) -> str:
    """Returns the code of a refusal, "" if it has none."""
    code: str = response.get("Error", {}).get("Code", "")
    return code


def refusal(operation: str, response: dict[str, Any], *, writes: bool) -> LochanError:
    """Returns the error for an answer that is a refusal."""
    code = code_of(response)
    message = f"{operation}: {response.get('Error', {}).get('Message', '')} ({code})"
    if code == TABLE_MISSING:
        return Corrupt(f"the table of this store is gone: {message}")
    if code in _OUR_MISTAKE:
        return Bug(f"DynamoDB refused a request: {message}")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if writes and (status not in _REFUSED or code == _IN_PROGRESS):
        return Unknown(f"DynamoDB failed during a write: {message}")
    return Unavailable(f"DynamoDB did not execute a request: {message}")


def no_answer(operation: str, error: Exception, *, writes: bool) -> LochanError:
    """Returns the error for a request without a whole answer."""
    from botocore import exceptions

    never_sent = (
        exceptions.ConnectTimeoutError,
        exceptions.EndpointConnectionError,
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.ProfileNotFound,
        exceptions.ProxyConnectionError,
    )
    message = f"{operation}: {type(error).__name__}: {error}"
    if writes and not isinstance(error, never_sent):
        return Unknown(f"the connection to DynamoDB was lost during a write: {message}")
    return Unavailable(f"DynamoDB cannot be reached: {message}")
