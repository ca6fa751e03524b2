"""How far events were delivered: positions in the history of references."""

from __future__ import annotations

import msgspec


class ReplayPosition(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far the history of a name was reported.

    `version` is that of the last move that was, 0 for none of this incarnation; `pointer` is where
    the reference pointed after the last change, empty before the first.
    """

    incarnation: int
    version: int
    pointer: bytes


class IndexPlace(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A commit of the index of names: its sequence and its id."""

    sequence: int
    pointer: bytes
