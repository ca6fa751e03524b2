"""What a face declares to the transport: its paths, routes, refusals and callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from lochan.access.policy import Principal
from lochan.base.errors import LochanError
from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, LongWork, Request, Response, ResponseHeaders

StreamHandler = Callable[[Exchange], Awaitable[Response]]
"""A coroutine; it waits for bodies on the loop, and does everything else that waits in a thread."""

Handler = Callable[[Exchange], Response | PendingWrite[Response] | LongWork]
"""Synchronous; raises errors of `base.errors`."""


class Route(msgspec.Struct, frozen=True):
    """One operation: its name in metrics and logs, its handler, and how long it may take.

    A brief one makes point reads, or pages of at most 1,000, or at most 100 operations: it runs on
    the event loop where the store answers at once.
    """

    name: str
    handler: Handler | StreamHandler
    brief: bool | Callable[[Exchange], bool] = True
    prepares: Callable[[Exchange], bool] | None = None
    """Returns whether the handler will not use the store: then it runs on the loop on any store."""

    streams: bool = False
    """Whether the handler is a StreamHandler, and reads the body from `Request.stream`."""

    body_bytes_max: int = HTTP_BODY_BYTES_MAX

    of_repository: bool = True
    """Whether it is about the repository that its path names, if it names one."""

    is_open: bool = False
    """Whether it is served without credentials; its body is short then."""


class Match(msgspec.Struct, frozen=True):
    """The route that serves a request, the decoded values in its path, and its repository.

    Without the name of a repository none is opened.
    """

    route: Route
    params: dict[str, str]
    repository: str | None = None


def _find_none(request: Request, match: Match) -> Principal | None:  # noqa: ARG001
    return None


class Authentication(msgspec.Struct, frozen=True):
    """How a face finds out who sends a request; `Unauthenticated` if that cannot be found out.

    `find_known` answers from memory, on the loop, and returns None if that is not enough. Then
    `authenticate` is called: with `reads_store` in a thread where the store may block, with `waits`
    always in a thread.
    """

    authenticate: Callable[[Request, Match], Principal]
    reads_store: bool = True
    find_known: Callable[[Request, Match], Principal | None] = _find_none
    waits: bool = False


class Face(Protocol):
    """One protocol that a listener speaks; every answer on its paths is its own."""

    @property
    def authentication(self) -> Authentication | None:
        """How callers are found out; None if everyone is served."""
        ...

    def owns(self, request: Request) -> bool:
        """Returns whether a request belongs to this face, by its raw path and its headers."""
        ...

    def match(self, request: Request) -> Match | Response:
        """Finds the route for a request whose body has not been read, or refuses it."""
        ...

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error in the form of this protocol."""
        ...

    def refuse(
        self, request: Request, status: int, message: str, headers: ResponseHeaders = ()
    ) -> Response:
        """Returns the refusal of a request that breaks a rule of HTTP, in the same form."""
        ...


class Found(msgspec.Struct, frozen=True):
    """The face that answers a request, and its route or its refusal."""

    face: Face
    match: Match | Response
