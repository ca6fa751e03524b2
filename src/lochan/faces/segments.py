"""Faces that name things by the segments of a path: routes from operations, and refusals.

The operations of `wire/` are the table of routes. Every one of them declares what it needs
(`ApiOperation.needs`), so that a test can try all of them without any right.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from lochan.access.policy import Action
from lochan.base.checks import check
from lochan.base.errors import LochanError
from lochan.base.limits.http import HTTP_BODY_BYTES_MAX
from lochan.faces.answers import problem
from lochan.faces.params import Handlers, takes_json
from lochan.transport.exchange import (
    Exchange,
    Request,
    Response,
    ResponseHeaders,
    decode_percent,
)
from lochan.transport.hygiene import find_fault
from lochan.transport.problems import reason_of
from lochan.transport.routes import Authentication, Match, Route
from lochan.wire.operations import ApiOperation

Methods = dict[str, Route]
"""The operations at a path by their methods."""

Chosen = tuple[Methods, dict[str, str]]
"""The operations at a path by their methods, and the decoded values in the path."""

REPOSITORIES: Final = b"/r/"
"""What a path begins with that names its repository."""

_OF_ALL_REPOSITORIES: Final = (Action.LIST_REPOSITORIES, Action.CREATE_REPOSITORY)

NOTHING_PREPARES: Final[Mapping[str, Callable[[Exchange], bool]]] = {}

NO_STREAMS: Final[Mapping[str, Route]] = {}


def build_routes(
    operations: Sequence[ApiOperation],
    bound: Handlers,
    preparing: Mapping[str, Callable[[Exchange], bool]] = NOTHING_PREPARES,
    any_body: Sequence[str] = (),
    body_bytes_max: int = HTTP_BODY_BYTES_MAX,
    streams: Mapping[str, Route] = NO_STREAMS,
) -> dict[str, Methods]:
    """Returns the routes by template and method; every operation has one handler.

    Bodies are JSON, but for the operations in `any_body`, which check the content type themselves.
    The operations in `streams` have routes of their own.
    """
    known = {*bound, *streams}
    check({each.id for each in operations} == known, "every operation has a handler")
    routes: dict[str, Methods] = {}
    for each in operations:
        if each.id in streams:
            routes.setdefault(each.path, {})[each.method] = streams[each.id]
            continue
        handler, brief = bound[each.id]
        if each.request is not None and each.id not in any_body:
            handler = takes_json(handler)
        route = Route(
            each.id,
            handler,
            brief,
            preparing.get(each.id),
            body_bytes_max=body_bytes_max,
            of_repository=each.action not in _OF_ALL_REPOSITORIES,
            is_open=each.needs == "nothing",
        )
        routes.setdefault(each.path, {})[each.method] = route
    return routes


_Shape = tuple[list[bytes], list[str], Methods]
"""The fixed parts of a path, the names of its values, and its operations."""


class PathTable:
    """Finds the operations at a path: fixed paths first, then those with values in segments."""

    def __init__(self, routes: Mapping[str, Methods]) -> None:
        self._fixed: dict[bytes, Methods] = {}
        # By their length and their last part, which differs most; empty for a value.
        self._shapes: dict[tuple[int, bytes], list[_Shape]] = {}
        for path, methods in routes.items():
            if "{" in path:
                parts = path.split("/")
                fixed = [b"" if part.startswith("{") else part.encode("ascii") for part in parts]
                names = [part[1:-1] if part.startswith("{") else "" for part in parts]
                shape = (fixed, names, methods)
                self._shapes.setdefault((len(parts), fixed[-1]), []).append(shape)
            else:
                self._fixed[path.encode("ascii")] = methods

    def find(self, rest: bytes) -> Chosen | None:
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        found = self._fixed.get(rest)
        if found is not None:
            return found, {}
        segments = rest.split(b"/")
        count = len(segments)
        for last in (segments[-1], b""):
            for fixed, names, methods in self._shapes.get((count, last), ()):
                if _fits(fixed, names, segments):
                    values = zip(names, segments, strict=True)
                    return methods, {name: decode_percent(given) for name, given in values if name}
        return None


def _fits(fixed: list[bytes], names: list[str], segments: list[bytes]) -> bool:
    """Returns whether a path has a shape; an empty segment is no value."""
    for given, part, name in zip(segments, fixed, names, strict=True):
        if not given if name else given != part:
            return False
    return True


class SegmentFace(ABC):
    """A face below one prefix: finds the operation of a request, or refuses it."""

    prefix: bytes
    authentication: Authentication | None = None

    def __init__(self) -> None:
        self._below = self.prefix + b"/"

    def owns(self, request: Request) -> bool:
        """Returns whether a request belongs to this face, by its raw path."""
        return self._is_below(request.path)

    def _is_below(self, path: bytes) -> bool:
        return path.startswith(self._below) or path == self.prefix

    def match(self, request: Request) -> Match | Response:
        """Finds the operation of a request, or refuses it."""
        path = request.path
        if b"%" in path or b"/." in path or request.query.raw:
            fault = find_fault(request)
            if fault is not None:
                return self.refuse(request, 400, fault)
        repository, path = self.locate(path)
        found = self.find(request.method, path[len(self.prefix) :])
        if found is None:
            return self.refuse(request, 404, "nothing is served at this address")
        methods, params = found
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            headers = ((b"allow", allowed.encode("ascii")),)
            return self.refuse(request, 405, f"allowed here: {allowed}", headers)
        return Match(route, params, repository)

    def locate(self, path: bytes) -> tuple[str | None, bytes]:
        """Returns the repository that a raw path names, and the path without it."""
        return None, path

    @abstractmethod
    def find(self, method: str, rest: bytes) -> Chosen | None:
        """Returns the operations at the raw rest of a path, and the decoded values in it."""

    @abstractmethod
    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""

    def refuse(
        self,
        request: Request,  # noqa: ARG002 - the protocol has it
        status: int,
        message: str,
        headers: ResponseHeaders = (),
    ) -> Response:
        """Returns the refusal of a request that breaks a rule of HTTP."""
        code = reason_of(status).upper().replace(" ", "_")
        return msgspec.structs.replace(problem(status, code, message), headers=headers)


class RepositoryFace(SegmentFace):
    """A face of one repository: the default one, or the one that a path names.

    Such a path begins with the name, before the prefix of the face: `/r/{name}/api/v2/…`.
    """

    def __init__(
        self, default_repository: str, authentication: Authentication | None = None
    ) -> None:
        super().__init__()
        self._default_repository = default_repository
        self.authentication = authentication

    def owns(self, request: Request) -> bool:
        """Returns whether a request belongs to this face, by its raw path."""
        path = request.path
        if path.startswith(self._below):
            return True
        if path.startswith(REPOSITORIES):
            path = path[path.find(b"/", len(REPOSITORIES)) :]
        return self._is_below(path)

    def locate(self, path: bytes) -> tuple[str, bytes]:
        """Returns the repository that a raw path names, and the path without it."""
        if not path.startswith(REPOSITORIES):
            return self._default_repository, path
        name, _, rest = path[len(REPOSITORIES) :].partition(b"/")
        return decode_percent(name), b"/" + rest
