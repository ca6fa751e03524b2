"""What an answer of S3, or its absence, means for the caller.

A request that changes something and whose answer is missing may have taken effect. For most of them
that does not matter: no entry names their object yet. Where it matters (completing a multipart
upload), the caller asks for Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lochan.base.errors import Exhausted, LochanError, Unavailable, Unknown

_BUSY: Final = {"SlowDown", "TooManyRequests", "RequestLimitExceeded", "ServiceUnavailable", "503"}
_FULL: Final = {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "507"}
_MESSAGE_MAX: Final = 300
_NOT_AVAILABLE: Final = (
    "the place for object data is not available now: nothing was changed; try again later"
)


def error_code(response: Mapping[str, Any]) -> str:
    """Returns the code of an error answer, such as NoSuchKey; the status if it has no body."""
    return str(response.get("Error", {}).get("Code", ""))


def status_of(response: Mapping[str, Any]) -> int:
    """Returns the HTTP status of an answer, 0 if it has none."""
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def unavailable(message: str) -> Unavailable:
    """Returns the error for S3 not having done what it was asked for; callers learn what failed."""
    return Unavailable(message, public=_NOT_AVAILABLE)


def refusal(operation: str, response: Mapping[str, Any], *, in_doubt: bool) -> LochanError:
    """Returns the error for an answer that is an error."""
    code = error_code(response)
    text = str(response.get("Error", {}).get("Message", ""))[:_MESSAGE_MAX]
    message = f"S3 refused {operation}: {code} {text}".rstrip()
    if code in _FULL:
        return Exhausted(
            message, public="the place for object data is full: nothing was stored; try again later"
        )
    if in_doubt and status_of(response) >= 500:
        return Unknown(message)
    if code in _BUSY:
        return Exhausted(message)
    return unavailable(message)


def no_answer(operation: str, error: Exception, *, in_doubt: bool) -> LochanError:
    """Returns the error for a request without an answer."""
    message = f"S3 did not answer {operation}: {type(error).__name__} {error}"[: 2 * _MESSAGE_MAX]
    return Unknown(message) if in_doubt else unavailable(message)


def field(answer: Mapping[str, Any], name: str) -> Any:
    """Returns what every whole answer to this request states; Unavailable if it is missing."""
    if name not in answer:
        raise unavailable(f"S3 sent an answer without {name}")
    return answer[name]
