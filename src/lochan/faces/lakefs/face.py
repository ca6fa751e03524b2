"""The routes of the lakeFS API: operations of `wire/`, each bound to its handler."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import KeysConflict, LochanError, NotFound, RangeNotSatisfiable
from lochan.base.limits.files import FILE_BYTES_MAX
from lochan.faces.lakefs import (
    commits,
    imports,
    objects,
    physical_addresses,
    references,
    repositories,
)
from lochan.faces.lakefs.answers import refusal, status_of, words_of
from lochan.faces.lakefs.repositories import LakefsRepositoryHandlers
from lochan.faces.lakefs.server import ServerHandlers
from lochan.faces.lakefs.transfers import (
    get_object,
    is_small_object,
    upload_object,
    upload_small_object,
)
from lochan.faces.segments import Chosen, Methods, PathTable, SegmentFace, build_routes
from lochan.service.access import AccessControl
from lochan.service.repositories import Repositories
from lochan.transport.exchange import Request, Response, ResponseHeaders, decode_percent
from lochan.transport.problems import public_text
from lochan.transport.routes import Authentication, Match, Route
from lochan.wire.operations_lakefs import LAKEFS_PREFIX, OPERATIONS_LAKEFS, UNSUPPORTED

_STREAMS: Final = {
    "lakefs.getObject": Route("lakefs.getObject", get_object, streams=True),
    "lakefs.uploadObject": Route(
        "lakefs.uploadObject", upload_object, streams=True, body_bytes_max=FILE_BYTES_MAX
    ),
}

_SMALL: Final = Route("lakefs.uploadObject", upload_small_object)

_REPOSITORIES: Final = b"repositories"


class LakefsFace(SegmentFace):
    """The lakeFS API; without `authentication` everyone is served, as before set-up."""

    prefix = LAKEFS_PREFIX.encode("ascii")

    def __init__(
        self,
        repositories_of_server: Repositories,
        access: AccessControl,
        default_repository: str,
        authentication: Authentication | None = None,
    ) -> None:
        super().__init__()
        self.authentication = authentication
        bound = {
            **ServerHandlers(access).bound(),
            **LakefsRepositoryHandlers(repositories_of_server, default_repository).bound(),
            **repositories.HANDLERS,
            **references.HANDLERS,
            **commits.HANDLERS,
            **objects.HANDLERS,
            **physical_addresses.HANDLERS,
            **imports.HANDLERS,
        }
        routes = build_routes(OPERATIONS_LAKEFS, bound, streams=_STREAMS)
        _add_unsupported(routes)
        self._paths = PathTable(routes)

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - Nessie needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        return self._paths.find(rest)

    def match(self, request: Request) -> Match | Response:
        """Finds the operation of a request; the body of a small object is no stream."""
        found = super().match(request)
        if isinstance(found, Match) and found.route is _STREAMS["lakefs.uploadObject"]:
            if request.headers.derive(is_small_object):
                return Match(_SMALL, found.params, found.repository)
        return found

    def locate(self, path: bytes) -> tuple[str | None, bytes]:
        """Returns the repository that a raw path names, and the whole path."""
        segments = path[len(self.prefix) :].split(b"/", 3)
        if len(segments) > 2 and segments[1] == _REPOSITORIES and segments[2]:
            return decode_percent(segments[2]), path
        return None, path

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        if isinstance(error, KeysConflict):
            return commits.conflict_of(error)
        headers: ResponseHeaders = ()
        if isinstance(error, RangeNotSatisfiable):
            headers = ((b"content-range", b"bytes */%d" % error.size),)
        text = words_of(error) or public_text(error, request.id)
        if isinstance(error, NotFound) and "not found" not in text:
            text = f"{text}: not found"
        return refusal(status_of(error), text, headers)

    def refuse(
        self,
        request: Request,  # noqa: ARG002 - the protocol has it
        status: int,
        message: str,
        headers: ResponseHeaders = (),
    ) -> Response:
        """Returns the refusal of a request that breaks a rule of HTTP."""
        return refusal(status, message, headers)


def _add_unsupported(routes: dict[str, Methods]) -> None:
    """Adds what is answered with 501; these need credentials like everything else."""
    for name, method, path in UNSUPPORTED:
        route = Route(f"lakefs.{name}", commits.unsupported)
        routes.setdefault(path, {})[method] = route
