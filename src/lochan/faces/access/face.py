"""The routes of access: operations of `wire/`, each bound to its handler."""

from __future__ import annotations

from lochan.base.errors import LochanError
from lochan.base.limits.http import ACCESS_BODY_BYTES_MAX
from lochan.faces.access.handlers import AccessHandlers
from lochan.faces.answers import problem_of
from lochan.faces.segments import Chosen, PathTable, SegmentFace, build_routes
from lochan.service.access import AccessControl
from lochan.transport.exchange import Request, Response
from lochan.transport.routes import Authentication
from lochan.wire.operations_access import ACCESS_PREFIX, OPERATIONS_ACCESS
from lochan.wire.problems import ACCESS_ERROR_CODES


class AccessFace(SegmentFace):
    """The API of access; without `authentication` everyone is served, as before set-up."""

    prefix = ACCESS_PREFIX.encode("ascii")

    def __init__(self, access: AccessControl, authentication: Authentication | None = None) -> None:
        super().__init__()
        self.authentication = authentication
        bound = AccessHandlers(access).bound()
        routes = build_routes(OPERATIONS_ACCESS, bound, body_bytes_max=ACCESS_BODY_BYTES_MAX)
        self._paths = PathTable(routes)

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - Nessie needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        return self._paths.find(rest)

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem_of(request, error, codes=ACCESS_ERROR_CODES)
