"""The answer to an error: in the form of its face, with the headers that HTTP wants for it."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import LochanError, TooManyRequests, Unauthenticated
from lochan.transport.error_boundary import attempt, log_failure, trace_of
from lochan.transport.exchange import Request, Response
from lochan.transport.problems import plain_problem
from lochan.transport.routes import Face

CHALLENGE: Final = (b"www-authenticate", b'Bearer realm="lochan", Basic realm="lochan"')
"""What a client may send instead of nothing, or of credentials that are not valid."""

_RETRY_AFTER: Final = b"retry-after"


def answer_error(
    face: Face, request: Request, error: LochanError, route: str, *, show_traces: bool = False
) -> Response:
    """Returns the answer of a face to an error; logs what it conceals."""
    log_failure(error, request.id, route)
    if show_traces and "Traceback" not in error.public and not isinstance(error, Unauthenticated):
        error.public = f"{error.message}\n{trace_of(error)}"
    problem = attempt(face.problem, request, error)
    if isinstance(problem, LochanError):
        problem = plain_problem(problem, request.id)
    if isinstance(error, Unauthenticated):
        return _with_header(problem, CHALLENGE)
    if isinstance(error, TooManyRequests):
        return _with_header(problem, (_RETRY_AFTER, b"%d" % error.retry_after_s))
    return problem


def _with_header(response: Response, header: tuple[bytes, bytes]) -> Response:
    """Returns an answer with a header, unless its face has set that header itself."""
    if any(name == header[0] for name, _ in response.headers):
        return response
    return msgspec.structs.replace(response, headers=(*response.headers, header))
