"""The parameters of a URL that several flows share."""

from __future__ import annotations

from secrets import token_hex
from typing import Any, Final

from lochan.client.messages import Query
from lochan.model.requests import KeysPageRequest, PageRequest
from lochan.wire.keys import key_to_path

_KEY_BYTES: Final = 16


def query_of(**values: str | None) -> Query:
    """Returns those parameters that have a value; `max_key` is sent as `max-key`."""
    return tuple((name.replace("_", "-"), value) for name, value in values.items() if value)


def page_query(request: PageRequest[Any]) -> Query:
    """Returns the parameters that choose a page."""
    limit = None if request.limit is None else str(request.limit)
    return query_of(max_records=limit, page_token=request.token)


def keys_query(request: KeysPageRequest[Any]) -> Query:
    """Returns the parameters that choose a page of keys, and which keys it may contain."""
    query = page_query(request) + tuple(("key", key_to_path(key)) for key in request.keys)
    bounds = (("min-key", request.start), ("max-key", request.end), ("prefix-key", request.prefix))
    query += tuple((name, key_to_path(key)) for name, key in bounds if key is not None)
    return query + query_of(filter=request.filter)


def new_idempotency_key() -> str:
    """Returns an idempotency key, chosen once for each call of a write."""
    return token_hex(_KEY_BYTES)
