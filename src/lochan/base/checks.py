"""Checks of invariants that run in production too.

`check` is for what only a mistake in our own code can break. Bytes that come from a disk or a
network are checked with `check_stored`, because there the cause is outside our code.
"""

from __future__ import annotations

from lochan.base.errors import Bug, Corrupt


def check(holds: bool, message: str) -> None:
    """Raises Bug unless the invariant holds; `message` states the invariant."""
    if not holds:
        raise Bug(message)


def check_stored(holds: bool, message: str) -> None:
    """Raises Corrupt unless what was read back is what could have been written."""
    if not holds:
        raise Corrupt(message)
