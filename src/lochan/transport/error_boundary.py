"""The one place where the server catches everything: a bug in a handler must not end the others.

An exception that is not a LochanError becomes a Bug and is logged with its traceback.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar, TypeVarTuple

from lochan.base.errors import Bug, Corrupt, Invalid, LochanError, Unauthenticated
from lochan.transport.problems import is_concealed

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

_LOG: Final = logging.getLogger("lochan.http")

# A refusal after retries has the error of the last attempt as its cause, and that the driver's.
_REASONS_MAX: Final = 6


def attempt(
    work: Callable[[*_Arguments], _Result], *arguments: *_Arguments
) -> _Result | LochanError:
    """Returns what the call returned, or the error it raised; raises nothing."""
    try:
        return work(*arguments)
    except Exception as error:
        return report_failure(error)


async def attempt_async(work: Awaitable[_Result]) -> _Result | LochanError:
    """Returns what an awaitable returned, or the error it raised; raises only cancellation."""
    try:
        return await work
    except Exception as error:
        return report_failure(error)


def report_failure(error: Exception) -> LochanError:
    """Returns what a failure is for the client; logs it if the server is at fault."""
    if isinstance(error, LochanError):
        if isinstance(error, Bug):
            report_bug(error)
        return error
    if isinstance(error, RecursionError):
        return Invalid("the body is nested too deeply")
    _LOG.error("handler failed error=%r", str(error), exc_info=error)
    bug = Bug(f"a handler failed with {type(error).__name__}")
    bug.__cause__ = error
    return bug


def report_bug(error: Bug) -> None:
    """Logs a violated invariant with its traceback."""
    _LOG.error("invariant violated: %s", error.message, exc_info=error)


def log_failure(error: LochanError, request_id: str, route: str) -> None:
    """Logs the details that the answer to a request conceals; the answer contains its id."""
    reasons = list(_reasons(error))
    if not any(isinstance(each, LochanError) and is_concealed(each) for each in reasons):
        return
    level = logging.ERROR if isinstance(error, (Corrupt, Bug)) else logging.WARNING
    if isinstance(error, Unauthenticated):
        # Anyone can cause it, as often as they like; the audit log has it for the operator.
        level = logging.INFO
    _LOG.log(
        level,
        "request failed request=%s route=%s kind=%s reason=%r",
        request_id,
        route,
        error.kind,
        " <- ".join(str(each) for each in reasons),
        exc_info=error if isinstance(error, Corrupt) else None,
    )


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and its causes, down to the first one, which the store raised.

    Of causes that an error hides (`from None`) only ours: a driver's message may contain secrets.
    """
    at: BaseException | None = error
    for _ in range(_REASONS_MAX):
        if at is None:
            return
        yield at
        below = at.__cause__ or at.__context__
        is_shown = below is at.__cause__ or isinstance(below, LochanError)
        at = below if is_shown else None


def trace_of(error: LochanError) -> str:
    """Returns the traceback of an error as text; clients see it if a setting allows it."""
    return "".join(traceback.format_exception(error))
