"""What JSON faces read from a request alike: the type of its body, and which page it requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

from lochan.base.errors import Invalid
from lochan.faces.answers import problem
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, LongWork, Request, RequestHeaders, Response
from lochan.transport.routes import Handler

Handlers = dict[str, tuple[Handler, bool | Callable[[Exchange], bool]]]
"""Operations by their ids: the handler of each, and whether it is brief for a request."""

# Clients of the API know these parameters as numbers of 32 bits.
_COUNT_MAX: Final = 2**31 - 1


def takes_json(handler: Handler) -> Handler:
    """Refuses a body that has a content type other than JSON, before the handler reads it."""

    @wraps(handler)
    def checked(exchange: Exchange) -> Response | PendingWrite[Response] | LongWork:
        if not is_json(exchange.request):
            return problem(
                415,
                "UNSUPPORTED_MEDIA_TYPE",
                "The body of a request is JSON; say so with Content-Type: application/json.",
            )
        return handler(exchange)

    return checked


def is_json(request: Request) -> bool:
    """Returns whether the body may be read as JSON; without a content type it may."""
    return request.headers.derive(names_json)


def names_json(headers: RequestHeaders) -> bool:
    """Returns whether the headers name JSON as the type of the body, or none."""
    kind = (headers.get("content-type") or "application/json").partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def limit_of(exchange: Exchange, name: str = "max-records") -> int | None:
    """Returns the limit of a listing; None (also for 0) means all."""
    text = exchange.request.query.get(name)
    if text is None or text == "":
        return None
    try:
        limit = int(text)
    except ValueError:
        limit = -1
    if not 0 <= limit <= _COUNT_MAX or not text.isascii() or not text.isdigit():
        raise Invalid(f"the parameter '{name}' is a number from 0 to {_COUNT_MAX}: {text[:40]!r}")
    return limit or None


def token_of(exchange: Exchange, name: str = "page-token") -> str | None:
    """Returns the token of the requested page, None for the first."""
    return exchange.request.query.get(name) or None
