"""The one place where the server catches everything: a bug in a handler must not end the others.

What is no error of ours becomes a Bug, is logged with its traceback, and is answered as such.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from lochan.base.errors import Bug, Invalid, LochanError

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")

_LOG: Final = logging.getLogger("lochan.http")


def attempt(
    work: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result | LochanError:
    """Returns what the call returned, or the error it raised; raises nothing."""
    try:
        return work(*args, **kwargs)
    except LochanError as error:
        if isinstance(error, Bug):
            _LOG.error("a belief turned out wrong: %s", error.message, exc_info=error)
        return error
    except RecursionError:
        return Invalid("the body is nested too deeply")
    except Exception as error:
        _LOG.error("a handler failed: %s", error, exc_info=error)
        bug = Bug(f"internal error ({type(error).__name__}); the server's log knows more")
        bug.__cause__ = error
        return bug


def trace_of(error: LochanError) -> str:
    """Returns the traceback of an error as text, for operators who want clients to see it."""
    return "".join(traceback.format_exception(error))
