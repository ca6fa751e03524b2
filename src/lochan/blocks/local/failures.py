"""What an error of the file system means for the caller."""

from __future__ import annotations

import errno
import os
from typing import Final

from lochan.base.errors import Exhausted, LochanError, Unavailable

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_TOO_MANY: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def failure(error: OSError, what: str) -> LochanError:
    """Returns the error for a call that had no visible effect; `what` was attempted."""
    number = error.errno or 0
    name = errno.errorcode.get(number, str(number))
    message = f"{what} failed: {os.strerror(number) if number else error} ({name})"
    if number in _FULL:
        return Exhausted(
            message, public="the place for object data is full: nothing was stored; try again later"
        )
    if number in _TOO_MANY:
        return Exhausted(message)
    return Unavailable(message)
