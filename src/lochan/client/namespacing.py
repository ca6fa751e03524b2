"""The flows of namespaces; they are of version 1 of the API, which makes their commits itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from lochan.client.asking import Ask, Flow
from lochan.client.replies import asked, asked_plainly
from lochan.client.specs import new_key
from lochan.model.commits import ContentKey
from lochan.model.contents import Namespace
from lochan.model.specs import parse_spec
from lochan.wire.codec import encode
from lochan.wire.keys import key_to_path
from lochan.wire.namespaces import NamespacesV1, NamespaceUpdateIn

_API: Final = "/api/v1"
_DETACHED: Final = "DETACHED"

Query = tuple[tuple[str, str], ...]


def get(spec: str, elements: ContentKey) -> Flow[Namespace]:
    """Asks for one namespace."""
    path, query = _where(spec, elements)
    return (yield from asked(Ask("GET", path, query), Namespace))


def list_all(spec: str, prefix: ContentKey) -> Flow[tuple[Namespace, ...]]:
    """Asks for the namespaces below a prefix."""
    name, query = _reference(spec)
    if prefix:
        query += (("name", _text(prefix)),)
    ask = Ask("GET", f"{_API}/namespaces/{quote(name, safe='')}", query)
    return (yield from asked(ask, NamespacesV1)).namespaces


def create(branch: str, elements: ContentKey, properties: Mapping[str, str]) -> Flow[Namespace]:
    """Makes a namespace."""
    path, query = _where(branch, elements)
    body = encode(Namespace(elements=tuple(elements), properties=dict(properties)))
    return (yield from asked(Ask("PUT", path, query, body, new_key()), Namespace))


def delete(branch: str, elements: ContentKey) -> Flow[None]:
    """Takes a namespace away."""
    path, query = _where(branch, elements)
    yield from asked_plainly(Ask("DELETE", path, query, key=new_key()))


def update(
    branch: str, elements: ContentKey, updates: Mapping[str, str], removals: Sequence[str]
) -> Flow[None]:
    """Changes the properties of a namespace."""
    path, query = _where(branch, elements)
    body = encode(
        NamespaceUpdateIn(property_updates=dict(updates), property_removals=frozenset(removals))
    )
    yield from asked_plainly(Ask("POST", path, query, body, new_key()))


def _where(spec: str, elements: ContentKey) -> tuple[str, Query]:
    name, query = _reference(spec)
    path = f"{_API}/namespaces/namespace/{quote(name, safe='')}/{quote(_text(elements), safe='')}"
    return path, query


def _reference(spec: str) -> tuple[str, Query]:
    parsed = parse_spec(spec)
    on_reference = parsed.on_reference
    query: Query = (("hashOnRef", on_reference),) if on_reference else ()
    return parsed.name or _DETACHED, query


def _text(elements: ContentKey) -> str:
    # Version 1 knows only the older form of keys.
    return key_to_path(tuple(elements), escaped=False)
