"""The routes of files: operations of `wire/`, each bound to its handler."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import LochanError, RangeNotSatisfiable
from lochan.base.limits.files import FILE_BYTES_MAX
from lochan.faces.answers import problem_of
from lochan.faces.files import branch_handlers, handlers
from lochan.faces.files.downloads import get_file
from lochan.faces.files.uploads import is_small, put_file, put_small_file
from lochan.faces.segments import Chosen, PathTable, RepositoryFace, build_routes
from lochan.transport.exchange import Request, Response
from lochan.transport.routes import Authentication, Match, Route
from lochan.wire.operations_files import FILES_PREFIX, OPERATIONS_FILES
from lochan.wire.problems import FILE_ERROR_CODES

_STREAMS: Final = {
    "getFile": Route("getFile", get_file, streams=True),
    "putFile": Route("putFile", put_file, streams=True, body_bytes_max=FILE_BYTES_MAX),
}

_SMALL: Final = Route("putFile", put_small_file)


class FilesFace(RepositoryFace):
    """The API of files; `/r/{name}` before its prefix names another repository."""

    prefix = FILES_PREFIX.encode("ascii")

    def __init__(
        self, default_repository: str, authentication: Authentication | None = None
    ) -> None:
        super().__init__(default_repository, authentication)
        bound = handlers.HANDLERS | branch_handlers.HANDLERS
        self._paths = PathTable(build_routes(OPERATIONS_FILES, bound, streams=_STREAMS))

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - Nessie needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        return self._paths.find(rest)

    def match(self, request: Request) -> Match | Response:
        """Finds the operation of a request; the body of a small file is no stream."""
        found = super().match(request)
        if isinstance(found, Match) and found.route is _STREAMS["putFile"]:
            if request.headers.derive(is_small):
                return Match(_SMALL, found.params, found.repository)
        return found

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        found = problem_of(request, error, codes=FILE_ERROR_CODES)
        if isinstance(error, RangeNotSatisfiable):
            headers = (*found.headers, (b"content-range", b"bytes */%d" % error.size))
            return msgspec.structs.replace(found, headers=headers)
        return found
