"""Who calls a use case: the first argument of every one of them."""

from __future__ import annotations

import msgspec


class Call(msgspec.Struct, frozen=True):
    """One request as its face has authenticated it; required by every use case, reads included.

    `principal` is empty while there is no authentication. An idempotency key makes a write take
    effect once, however often it is sent; `digest` is that of the whole request, because the same
    key with another request is refused. `trace` names the request in logs.
    """

    principal: str = ""
    idempotency_key: str | None = None
    digest: bytes = b""
    roles: tuple[str, ...] = ()
    repository: str = ""
    trace: str = ""
