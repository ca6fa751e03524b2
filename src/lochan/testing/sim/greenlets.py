"""The one module that uses greenlets: functions that stop in the middle and continue later.

A greenlet runs on the caller's thread until it switches back. A simulated world of many actors is
therefore one thread, and the code that switches decides the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]


class Greenlet(Protocol):
    """A function that was started, or can be, and that can be continued."""

    def switch(self, value: object = None) -> Any:
        """Continues it with that value; returns when it switches back."""
        ...

    def throw(self, error: type[BaseException]) -> Any:
        """Continues it by raising the error at the place where it stopped."""
        ...


def new_greenlet(body: Callable[[object], None]) -> Greenlet:
    """Returns a greenlet that has not started; when its body ends, its creator continues."""
    return cast("Greenlet", greenlet(body))


def current_greenlet() -> Greenlet:
    """Returns the greenlet that is running."""
    return cast("Greenlet", getcurrent())
