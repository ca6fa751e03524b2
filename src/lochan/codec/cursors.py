"""How far events were delivered: positions in the history of references, and their rows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from lochan.codec.forms import RowForm


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


class SubscriberRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscriber with a durable cursor, and the lease of the server that delivers to it.

    `fence` grows with every change of the owner. A server that does not own the lease takes it when
    it has seen the same row for `duration_ms`, by its own clock.
    """

    format: Literal[1]
    name: str
    owner: bytes
    """Random, of one worker; empty if the last owner has given the lease back."""
    fence: int
    renewals: int
    duration_ms: int
    expires_us: int
    """For people who read the row; no server decides by it, because clocks differ."""
    has_begun: bool = False
    """Whether all repositories that existed at the first start have a cursor."""


class CursorRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far one subscriber is in one repository.

    All changes of the index of names up to `place` are in the positions of this `generation`. There
    is none while a filter excludes the repository. `complete_us` is when the last round began that
    delivered everything it found.
    """

    format: Literal[1]
    subscriber: str
    generation: bytes
    place: IndexPlace
    complete_us: int
    fence: int


class PositionRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far one subscriber is in the history of one name, deleted or not."""

    format: Literal[1]
    subscriber: str
    generation: bytes
    reference: str
    at: ReplayPosition
    fence: int


SUBSCRIBER_FORM: Final = RowForm(SubscriberRow, "subscriber of events")
CURSOR_FORM: Final = RowForm(CursorRow, "cursor of events")
POSITION_FORM: Final = RowForm(PositionRow, "position of a cursor of events")
