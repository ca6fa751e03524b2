"""Errors as programs that know only files expect them; all others stay as they are."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from lochan.base.errors import ConditionFailed, Denied, LochanError, NotFound


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raises FileNotFoundError, PermissionError and FileExistsError for what they mean."""
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(errno.ENOENT, _text(errno.ENOENT, error), path) from error
    except Denied as error:
        raise PermissionError(errno.EACCES, _text(errno.EACCES, error), path) from error
    except ConditionFailed as error:
        raise FileExistsError(errno.EEXIST, _text(errno.EEXIST, error), path) from error


def _text(code: int, error: LochanError) -> str:
    return f"{os.strerror(code)} ({error.message})"
