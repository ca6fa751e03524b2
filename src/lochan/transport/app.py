"""What one listener serves: its faces, and the server's own few answers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from lochan.base.errors import LochanError
from lochan.transport.error_boundary import attempt, log_failure
from lochan.transport.exchange import Request, Response, ResponseHeaders
from lochan.transport.hygiene import find_fault
from lochan.transport.problems import build_problem, plain_problem, reason_of
from lochan.transport.routes import Face, Found, Match

if TYPE_CHECKING:
    from lochan.service.repository import Repository

OwnHandler = Callable[[Request], Response]
"""Answers without a repository; called on the event loop, so it must be quick."""


class RepositoryOpener(Protocol):
    """Where the repositories of a server come from."""

    def open(self, name: str) -> Repository:
        """Returns the repository, from memory if it is open already; NotFound if there is none."""
        ...


class App:
    """The faces of a listener; the first that owns a request answers it."""

    def __init__(
        self, faces: Sequence[Face], own: Mapping[bytes, OwnHandler] | None = None
    ) -> None:
        self._own_paths = own or {}
        self._own = OwnFace(self._own_paths)
        self._faces = tuple(faces)

    def find(self, request: Request) -> Found:
        """Returns the face that answers a request, with the route that it chose."""
        face: Face = self._own
        if request.path not in self._own_paths:
            for each in self._faces:
                if each.owns(request):
                    face = each
                    break
        try:
            return Found(face, face.match(request))
        except LochanError as error:
            log_failure(error, request.id, "server")
            return Found(face, face.problem(request, error))


class OwnFace:
    """The answers of the server itself: health, documents, and that nothing else is here."""

    authentication = None

    def __init__(self, handlers: Mapping[bytes, OwnHandler]) -> None:
        self._handlers = handlers

    def owns(self, request: Request) -> bool:
        """Returns whether the server itself serves something under the path of a request."""
        return request.path in self._handlers

    def match(self, request: Request) -> Match | Response:
        """Answers at once."""
        handler = self._handlers.get(request.path)
        if handler is None:
            fault = find_fault(request)
            if fault is not None:
                return self.refuse(request, 400, fault)
            return self.refuse(request, 404, "nothing is served at this address")
        if request.method not in ("GET", "HEAD"):
            return self.refuse(request, 405, "allowed here: GET, HEAD", ((b"allow", b"GET, HEAD"),))
        answer = attempt(handler, request)
        return self.problem(request, answer) if isinstance(answer, LochanError) else answer

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return plain_problem(error, request.id)

    def refuse(
        self,
        request: Request,  # noqa: ARG002 - the protocol has it
        status: int,
        message: str,
        headers: ResponseHeaders = (),
    ) -> Response:
        """Returns a refusal in the form that clients of every face can at least show to people."""
        return build_problem(status, message, reason_of(status).upper().replace(" ", "_"), headers)
