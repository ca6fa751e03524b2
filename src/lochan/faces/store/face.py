"""The routes of a whole store: each reads a request, calls one use case, writes its result."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid, LochanError
from lochan.base.limits.http import ACCESS_BODY_BYTES_MAX
from lochan.base.limits.maintenance import COPY_PAGE_ROWS_FIRST
from lochan.faces.answers import answer, problem_of
from lochan.faces.calls import server_call
from lochan.faces.params import Handlers, limit_of, token_of
from lochan.faces.segments import Chosen, PathTable, SegmentFace, build_routes
from lochan.service.stores import StoreControl
from lochan.transport.exchange import Exchange, Request, Response
from lochan.transport.routes import Authentication
from lochan.wire.operations_store import OPERATIONS_STORE, STORE_PREFIX
from lochan.wire.problems import ACCESS_ERROR_CODES
from lochan.wire.stores import EraseIn, counts_out, erased_out, rows_out
from lochan.wire.strict import StrictReader

_read_erase: Final = StrictReader(EraseIn)


class StoreFace(SegmentFace):
    """The API of a whole store."""

    prefix = STORE_PREFIX.encode("ascii")

    def __init__(self, control: StoreControl, authentication: Authentication | None = None) -> None:
        super().__init__()
        self.authentication = authentication
        self._control = control
        bound: Handlers = {
            "countStore": (self._count, False),
            "scanStore": (self._scan, False),
            "walkStore": (self._walk, False),
            "eraseRepository": (self._erase, False),
        }
        routes = build_routes(OPERATIONS_STORE, bound, body_bytes_max=ACCESS_BODY_BYTES_MAX)
        self._paths = PathTable(routes)

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - Nessie needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        return self._paths.find(rest)

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem_of(request, error, codes=ACCESS_ERROR_CODES)

    def _count(self, exchange: Exchange) -> Response:
        exact = exchange.request.query.get("exact") == "true"
        page = self._control.count(server_call(exchange), exact, token_of(exchange))
        return answer(counts_out(page))

    def _scan(self, exchange: Exchange) -> Response:
        query = exchange.request.query
        end = None if query.get("end") is None else _bytes_of(exchange, "end")
        page = self._control.scan(
            server_call(exchange),
            _bytes_of(exchange, "partition"),
            _bytes_of(exchange, "start"),
            end,
            limit_of(exchange) or COPY_PAGE_ROWS_FIRST,
        )
        return answer(rows_out(page))

    def _walk(self, exchange: Exchange) -> Response:
        page = self._control.walk(
            server_call(exchange),
            _bytes_of(exchange, "partition"),
            _bytes_of(exchange, "cursor"),
            limit_of(exchange) or COPY_PAGE_ROWS_FIRST,
        )
        return answer(rows_out(page))

    def _erase(self, exchange: Exchange) -> Response:
        body: EraseIn = _read_erase(exchange.request.body)
        step = self._control.erase(
            server_call(exchange), body.repository, body.token, body.position
        )
        return answer(erased_out(step))


def _bytes_of(exchange: Exchange, name: str) -> bytes:
    """Returns a parameter that is written in hex; empty if it is missing."""
    text = exchange.request.query.get(name) or ""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Invalid(f"the parameter {name} is not written in hex") from None
