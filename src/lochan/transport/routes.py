"""Routes and faces: which handler serves which raw path.

A face owns everything below its prefix. It matches on raw, undecoded bytes and decodes value by
value, so that an encoded slash stays inside the name that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from lochan.base.errors import LochanError
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Request, Response

Handler = Callable[[Exchange], Response | PendingWrite[Response]]
"""Synchronous; raises errors of `base.errors`."""


class Route(msgspec.Struct, frozen=True):
    """One operation: its name in metrics and logs, its handler, and how long it may take.

    A brief one makes point reads, or pages of at most 1,000, or at most 100 operations: it runs on
    the event loop where the store answers at once.
    """

    name: str
    handler: Handler
    brief: bool | Callable[[Exchange], bool] = True
    prepares: Callable[[Exchange], bool] | None = None
    """Returns whether the handler will not use the store: then it runs on the loop on any store."""


class Match(msgspec.Struct, frozen=True):
    """The route that serves a path, and the decoded values in the path."""

    route: Route
    params: dict[str, str]


class MethodNotAllowed(msgspec.Struct, frozen=True):
    """The path exists, but not with this method."""

    allow: tuple[str, ...]


class Face(Protocol):
    """One protocol that the server speaks below one prefix."""

    @property
    def prefix(self) -> bytes:
        """Where it lives, such as `/api/v2`; without a slash at its end."""
        ...

    def match(self, method: str, rest: bytes) -> Match | MethodNotAllowed | None:
        """Finds the route for the raw rest of the path after the prefix; None if there is none."""
        ...

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error in the form of this protocol."""
        ...
