"""`/metrics`, for callers with the right to read metrics: they contain names of repositories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lochan.access.policy import Action, Call, Policy, Resource
from lochan.base.errors import LochanError
from lochan.transport.exchange import Exchange, Request, Response, ResponseHeaders
from lochan.transport.problems import build_problem, plain_problem, reason_of
from lochan.transport.routes import Authentication, Match, Route

PATH: Final = b"/metrics"

_ALLOWED: Final = "GET, HEAD"


class MetricsFace:
    """One path; `read` returns the page."""

    def __init__(
        self,
        read: Callable[[], bytes],
        content_type: bytes,
        policy: Policy,
        authentication: Authentication | None = None,
    ) -> None:
        self.authentication = authentication
        self._read = read
        self._content_type = content_type
        self._policy = policy
        self._match = Match(Route("getMetrics", self.get), {})

    def owns(self, request: Request) -> bool:
        """Returns whether the path of a request is the one of metrics."""
        return request.path == PATH

    def match(self, request: Request) -> Match | Response:
        """Returns the only route, or refuses the method."""
        if request.method not in ("GET", "HEAD"):
            headers = ((b"allow", _ALLOWED.encode("ascii")),)
            return self.refuse(request, 405, f"allowed here: {_ALLOWED}", headers)
        return self._match

    def get(self, exchange: Exchange) -> Response:
        """Returns the page."""
        caller, request = exchange.caller, exchange.request
        call = Call(
            caller.name,
            roles=caller.roles,
            trace=request.id,
            rights=caller.rights,
            credential=caller.credential,
            origin=request.origin,
        )
        self._policy.decide(call, Action.READ_METRICS, Resource(""))
        return Response(200, self._read(), content_type=self._content_type)

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
        """Returns the refusal of a request that breaks a rule of HTTP."""
        return build_problem(status, message, reason_of(status).upper().replace(" ", "_"), headers)
