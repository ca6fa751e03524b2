"""The flows of namespaces; they use version 1 of the API, which creates their commits itself."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from lochan.client.failures import exchange, exchange_undecoded
from lochan.client.messages import Flow, HttpRequest, Query, new_idempotency_key, query_of
from lochan.model.commits import ContentKey
from lochan.model.contents import Namespace
from lochan.model.requests import (
    CreateNamespaceRequest,
    DeleteNamespaceRequest,
    GetNamespaceRequest,
    ListNamespacesRequest,
    UpdateNamespaceRequest,
)
from lochan.model.specs import ReferenceSpec, parse_spec
from lochan.wire.codec import encode
from lochan.wire.keys import key_to_path
from lochan.wire.listings import NamespacesV1, NamespaceUpdateIn

_NAMESPACES: Final = "/api/v1/namespaces"
_DETACHED: Final = "DETACHED"


def get(request: GetNamespaceRequest) -> Flow[Namespace]:
    """Fetches one namespace."""
    path, query = _address(request.spec, request.elements)
    return (yield from exchange(HttpRequest("GET", path, query), Namespace))


def list_all(request: ListNamespacesRequest) -> Flow[tuple[Namespace, ...]]:
    """Fetches the namespaces below a prefix."""
    name, query = _reference(request.spec)
    if request.prefix:
        query += (("name", _text(request.prefix)),)
    http = HttpRequest("GET", f"{_NAMESPACES}/{name}", query)
    return (yield from exchange(http, NamespacesV1)).namespaces


def create(request: CreateNamespaceRequest) -> Flow[Namespace]:
    """Creates a namespace."""
    path, query = _address(parse_spec(request.branch), request.namespace.elements)
    http = HttpRequest("PUT", path, query, encode(request.namespace), new_idempotency_key())
    return (yield from exchange(http, Namespace))


def delete(request: DeleteNamespaceRequest) -> Flow[None]:
    """Deletes a namespace."""
    path, query = _address(parse_spec(request.branch), request.elements)
    yield from exchange_undecoded(HttpRequest("DELETE", path, query, None, new_idempotency_key()))


def update(request: UpdateNamespaceRequest) -> Flow[None]:
    """Changes the properties of a namespace."""
    path, query = _address(parse_spec(request.branch), request.elements)
    body = encode(
        NamespaceUpdateIn(
            property_updates=dict(request.updates), property_removals=request.removals
        )
    )
    yield from exchange_undecoded(HttpRequest("POST", path, query, body, new_idempotency_key()))


def _address(spec: ReferenceSpec, elements: ContentKey) -> tuple[str, Query]:
    name, query = _reference(spec)
    return f"{_NAMESPACES}/namespace/{name}/{quote(_text(elements), safe='')}", query


def _reference(spec: ReferenceSpec) -> tuple[str, Query]:
    return quote(spec.name or _DETACHED, safe=""), query_of(hashOnRef=spec.on_reference)


def _text(elements: ContentKey) -> str:
    # Version 1 reads only the older form of keys.
    return key_to_path(elements, escaped=False)
