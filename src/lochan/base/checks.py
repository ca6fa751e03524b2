"""Beliefs that are checked in production too.

`check` is for what only our own mistake can break; bytes that come from a disk or a network are
checked with `check_stored`, because there the fault lies outside.
"""

from __future__ import annotations

from lochan.base.errors import Bug, Corrupt


def check(belief: bool, message: str) -> None:
    """Raises Bug unless the belief holds."""
    if not belief:
        raise Bug(message)


def check_stored(belief: bool, message: str) -> None:
    """Raises Corrupt unless what was read back is what could have been written."""
    if not belief:
        raise Corrupt(message)
