"""Finds the face and the repository that a path names, or the server's own handler.

`/r/{repository}` before the prefix of a face names a repository; without it the default is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from lochan.base.checks import check
from lochan.transport.exchange import Request, Response, decode_percent
from lochan.transport.problems import build_problem
from lochan.transport.routes import Face, Match, MethodNotAllowed

if TYPE_CHECKING:
    from lochan.service.repository import Repository

_REPOSITORIES: Final = b"/r/"

OwnHandler = Callable[[Request], Response]
"""Serves something that belongs to the server, such as its health; always brief."""


class RepositoryOpener(Protocol):
    """Where repositories are opened."""

    def open(self, name: str) -> Repository:
        """Returns the repository, from memory if it is open already; NotFound if there is none."""
        ...


class Found(msgspec.Struct, frozen=True):
    """The face that is responsible, its route, and the name of the repository."""

    face: Face
    match: Match
    repository: str


class App:
    """The faces of a server, its repositories and its own few answers."""

    def __init__(
        self,
        faces: Sequence[Face],
        repositories: RepositoryOpener,
        own: Mapping[bytes, OwnHandler] | None = None,
        default_repository: str = "default",
    ) -> None:
        # The longest prefix first, so that one face may live below another.
        self._faces = tuple(sorted(faces, key=lambda face: -len(face.prefix)))
        for face in self._faces:
            check(not face.prefix.endswith(b"/"), "a prefix has no slash at its end")
        self.repositories = repositories
        self._own = dict(own or {})
        self.default_repository = default_repository

    def find(self, request: Request) -> Found | Response:
        """Returns the route of the request, or the answer where there is no route."""
        path = request.path
        own = self._own.get(path)
        if own is not None:
            if request.method not in ("GET", "HEAD"):
                return _not_allowed(("GET", "HEAD"))
            return own(request)
        repository = self.default_repository
        if path.startswith(_REPOSITORIES):
            name, slash, rest = path[len(_REPOSITORIES) :].partition(b"/")
            repository = decode_percent(name)
            path = slash + rest
        for face in self._faces:
            prefix = face.prefix
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                if not rest or rest.startswith(b"/"):
                    return _find_route(face, request.method, rest, repository)
        return _nothing_here()


def _find_route(face: Face, method: str, rest: bytes, repository: str) -> Found | Response:
    found = face.match(method, rest)
    if method == "HEAD" and not isinstance(found, Match):
        # A HEAD request gets the headers of the answer to a GET.
        found = face.match("GET", rest)
    if isinstance(found, Match):
        return Found(face, found, repository)
    if isinstance(found, MethodNotAllowed):
        return _not_allowed(found.allow)
    return _nothing_here()


def _not_allowed(allow: Sequence[str]) -> Response:
    allowed = ", ".join(allow)
    return build_problem(
        405, f"allowed here: {allowed}", "METHOD_NOT_ALLOWED", ((b"allow", allowed.encode()),)
    )


def _nothing_here() -> Response:
    return build_problem(404, "nothing is served at this address", "NOT_FOUND")
