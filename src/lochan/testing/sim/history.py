"""The operations of the actors of a simulated world: arguments, outcome, begin and end.

Time is counted in steps of the scheduler. An operation begins with the step of its first store call
and ends with the step of its last one: code in between is invisible to others, so these are the
tightest bounds, and "A ended before B began" is as strong as it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lochan.base.errors import LochanError

NOT_YET = -1


class Event:
    """One operation of one actor: its arguments, its outcome, when it began and ended."""

    __slots__ = (
        "actor",
        "arguments",
        "crashed",
        "end",
        "error",
        "operation",
        "result",
        "server",
        "start",
    )

    def __init__(
        self, actor: str, server: str, operation: str, arguments: tuple[object, ...]
    ) -> None:
        self.actor = actor
        self.server = server
        self.operation = operation
        self.arguments = arguments
        self.result: Any = None
        self.error: LochanError | None = None
        self.crashed = False
        self.start = NOT_YET
        self.end = NOT_YET

    @property
    def outcome(self) -> str:
        """`ok`, the kind of the error, `crashed`, or `open` if it never ended."""
        if self.crashed:
            return "crashed"
        if self.end == NOT_YET:
            return "open"
        return "ok" if self.error is None else self.error.kind

    @property
    def acknowledged(self) -> bool:
        """The operation returned without an error."""
        return self.outcome == "ok"

    @property
    def uncertain(self) -> bool:
        """It may have taken effect or not, and may still do so."""
        return self.outcome in ("crashed", "open", "unknown")

    def before(self, other: Event) -> bool:
        """Returns whether this one had ended when the other began."""
        return NOT_YET not in (self.end, other.start) and self.end < other.start

    def __repr__(self) -> str:
        given = ", ".join(_short(value) for value in self.arguments)
        return f"{self.actor}[{self.start}..{self.end}] {self.operation}({given}) {self.outcome}"


def _short(value: object) -> str:
    """Returns a value for people, the same in every run: never an address."""
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text[:40]


class History:
    """All events of one run, in the order of their beginning."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def of(self, *operations: str) -> list[Event]:
        """Returns the events of these operations."""
        return [event for event in self.events if event.operation in operations]

    def acknowledged(self, *operations: str) -> list[Event]:
        """Returns the events of these operations that returned without an error."""
        return [event for event in self.of(*operations) if event.acknowledged]

    def text(self) -> str:
        """One line for each event."""
        return "\n".join(map(repr, self.events))
