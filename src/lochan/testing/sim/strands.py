"""The one place that knows greenlets: code that stops in the middle and goes on later.

A strand runs on the caller's thread until it switches back, so a simulated world of many strands
is one thread and its order is decided by whoever switches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]


class Strand(Protocol):
    """Something that can be gone on with."""

    def switch(self, value: object = None) -> Any:
        """Goes on there with that value, until somebody switches back."""
        ...

    def throw(self, error: type[BaseException]) -> Any:
        """Goes on there by raising the error where it stopped."""
        ...


def new_strand(body: Callable[[object], None]) -> Strand:
    """Returns a strand that has not begun; when its body ends it goes on with who made it."""
    return cast("Strand", greenlet(body))


def current_strand() -> Strand:
    """Returns the strand that is asking."""
    return cast("Strand", getcurrent())
