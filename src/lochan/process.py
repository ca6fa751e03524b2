"""What a forked process does with what its parent had open: nothing that the parent would notice.

A fork copies memory and open files, but only the thread that forks. The child therefore has locks
that no thread will ever release, connections on which two processes would speak at once, and
libraries that rely on threads that do not exist. Rules for the owner of such a thing:

1. It registers with `after_fork` what has to happen to it in a child: fresh locks, no inherited
   connection, or the refusal of every further call.
2. An inherited descriptor is given up with `Descriptor.abandon`. The parent keeps its connection
   or lock, and an object of the child that still knows the number reaches only the null device.
3. An object whose destructor would act for the parent is passed to `never_destroy`.

None of this runs during normal work: no call checks for a fork.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

_Owner = TypeVar("_Owner")

FORK_ADVICE: Final = (
    "open it in the child only, not before the fork; or start the child with the method 'spawn'; "
    "or run `lochan serve` and use a client, which works in every process"
)
"""What to do instead of using an embedded store in a forked process."""

_RESETS: Final[WeakKeyDictionary[Any, Callable[[Any], None]]] = WeakKeyDictionary()


def after_fork(owner: _Owner, reset: Callable[[_Owner], None]) -> None:
    """Calls `reset(owner)` in every child that is forked while the owner exists.

    `reset` runs before anything else of the child. It must not block, take an inherited lock, or
    refer to the owner other than by its argument.
    """
    _RESETS[owner] = reset


def never_destroy(thing: object) -> None:
    """Keeps an object for the rest of this process, and through the end of the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class Descriptor:
    """An open file or socket of this process, by its number; a child may abandon it."""

    __slots__ = ("_identity", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._identity = _identity(number)

    def abandon(self) -> None:
        """Puts the null device in its place; harmless if the number means another file by now."""
        if self._identity is None or _identity(self.number) != self._identity:
            return
        try:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            # There is no number left for the null device.
            os.close(self.number)
            return
        os.dup2(nothing, self.number, inheritable=False)
        os.close(nothing)


def _identity(number: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reset_all() -> None:
    with ExitStack() as resets:
        # A stack calls all of them, also if one raises.
        for owner, reset in list(_RESETS.items()):
            resets.callback(reset, owner)


os.register_at_fork(after_in_child=_reset_all)
