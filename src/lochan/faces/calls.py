"""Who sends a request to a repository, as use cases take it, and the flags of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import Invalid
from lochan.transport.exchange import Exchange, RequestHeaders


def read_call(exchange: Exchange) -> Call:
    """Returns the caller of a read; an idempotency key means nothing to a read."""
    caller, request = exchange.caller, exchange.request
    return Call(
        caller.name,
        None,
        b"",
        caller.roles,
        exchange.repository.name,
        request.id,
        caller.rights,
        caller.credential,
        request.origin,
    )


def server_call(exchange: Exchange) -> Call:
    """Returns the caller of a request that is about no repository, or about all."""
    caller, request = exchange.caller, exchange.request
    return Call(
        principal=caller.name,
        roles=caller.roles,
        trace=request.id,
        rights=caller.rights,
        credential=caller.credential,
        origin=request.origin,
    )


def write_call(exchange: Exchange, more: Sequence[bytes] = ()) -> Call:
    """Returns the caller of a write; with an idempotency key also the request's digest.

    `more` is what else makes the request this one, such as headers that it is done by.
    """
    request = exchange.request
    keys = request.headers.derive(idempotency_keys)
    if not keys:
        return read_call(exchange)
    if len(keys) > 1:
        raise Invalid("the header Idempotency-Key is given more than once")
    digest = hashlib.sha256()
    parts = (request.method.encode("ascii"), request.path, request.query.raw, request.body)
    for part in (*parts, *more):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return msgspec.structs.replace(
        read_call(exchange), idempotency_key=keys[0], digest=digest.digest()
    )


def idempotency_keys(headers: RequestHeaders) -> Sequence[str]:
    """Returns the idempotency keys of a request; a client sends one or none."""
    return headers.all("idempotency-key")


def flag_of(exchange: Exchange, name: str) -> bool:
    """Returns a parameter that is true or false; without it false."""
    text = exchange.request.query.get(name)
    if text is None:
        return False
    lowered = text.lower()
    if lowered not in ("true", "false", ""):
        raise Invalid(f"the parameter '{name}' is true or false: {text[:40]!r}")
    return lowered == "true"
