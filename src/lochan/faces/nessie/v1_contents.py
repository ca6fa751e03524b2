"""Version 1 besides `/trees`: contents, differences, namespaces."""

from __future__ import annotations

from typing import Final

import msgspec

from lochan.base.errors import Invalid
from lochan.faces.answers import NO_CONTENT, answer
from lochan.faces.calls import read_call, write_call
from lochan.faces.nessie import handlers
from lochan.faces.nessie.params import names_few_keys
from lochan.faces.nessie.responses import later
from lochan.faces.nessie.v1_trees import on_reference, read_path
from lochan.faces.params import Handlers
from lochan.model.contents import Namespace
from lochan.model.specs import ReferenceSpec, check_name
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader
from lochan.wire.contents import content_v1
from lochan.wire.keys import key_from_path, optional_key
from lochan.wire.listings import (
    ContentsV1,
    DiffV1,
    NamespacesV1,
    NamespaceUpdateIn,
    content_with_key,
    diff_out,
)

_read_namespace: Final = Reader(Namespace)
_read_update: Final = Reader(NamespaceUpdateIn)


def get_content(exchange: Exchange) -> Response:
    """Reads one content, of the default branch unless another is named."""
    key = key_from_path(exchange.params["key"])
    content, reference = exchange.repository.contents.get(read_call(exchange), _spec(exchange), key)
    return answer(content_v1(content), reference.hash)


def get_multiple_contents(exchange: Exchange) -> Response:
    """Reads the contents of keys that the body names."""
    found, reference = handlers.read_contents(exchange, _spec(exchange))
    shown = [content_with_key(key, content, content_v1) for key, content in found]
    return answer(ContentsV1(shown), reference.hash)


def _spec(exchange: Exchange) -> ReferenceSpec:
    query = exchange.request.query
    return on_reference(check_name(query.get("ref") or "-"), query.get("hashOnRef"))


def get_diff(exchange: Exchange) -> Response:
    """Reads what differs between two references."""
    page = exchange.repository.history.diff(
        read_call(exchange), _side(exchange.params["from"]), _side(exchange.params["to"])
    )
    diffs = [diff_out(each, content_v1) for each in page.items]
    return answer(DiffV1(page.token is not None, page.token, diffs))


def _side(text: str) -> ReferenceSpec:
    name, _, digits = text.partition("*")
    return on_reference(check_name(name) if name else "-", digits or None)


def get_namespaces(exchange: Exchange) -> Response:
    """Lists namespaces, those below another if one is named."""
    spec = read_path(exchange, "hashOnRef")
    prefix = optional_key(exchange.request.query.get("name")) or ()
    return answer(
        NamespacesV1(exchange.repository.namespaces.list(read_call(exchange), spec, prefix))
    )


def get_namespace(exchange: Exchange) -> Response:
    """Reads one namespace, also one that only other keys imply."""
    spec = read_path(exchange, "hashOnRef")
    return answer(
        exchange.repository.namespaces.get(read_call(exchange), spec, _elements(exchange))
    )


def create_namespace(exchange: Exchange) -> PendingWrite[Response]:
    """Creates a namespace."""
    elements = _elements(exchange)
    given = Namespace(elements=elements)
    if exchange.request.body:
        given = _read_namespace(exchange.request.body)
    new = msgspec.structs.replace(given, id=None, elements=elements)
    branch = check_name(exchange.params["ref"])
    outcome = exchange.repository.namespaces.create(write_call(exchange), branch, None, new)
    return later(outcome, answer)


def delete_namespace(exchange: Exchange) -> PendingWrite[Response]:
    """Deletes a namespace that holds nothing."""
    branch = check_name(exchange.params["ref"])
    outcome = exchange.repository.namespaces.delete(
        write_call(exchange), branch, None, _elements(exchange)
    )
    return later(outcome, lambda _: NO_CONTENT)


def update_namespace(exchange: Exchange) -> PendingWrite[Response]:
    """Sets and takes away properties of a namespace."""
    update: NamespaceUpdateIn = _read_update(exchange.request.body)
    outcome = exchange.repository.namespaces.update(
        write_call(exchange),
        check_name(exchange.params["ref"]),
        None,
        _elements(exchange),
        update.property_updates or {},
        set(update.property_removals or ()),
    )
    return later(outcome, lambda _: NO_CONTENT)


def _elements(exchange: Exchange) -> tuple[str, ...]:
    name = exchange.params["name"]
    if not name:
        raise Invalid("Namespace name must not be empty")
    return key_from_path(name)


HANDLERS: Final[Handlers] = {
    "getContentV1": (get_content, True),
    "getMultipleContentsV1": (get_multiple_contents, names_few_keys),
    "getDiffV1": (get_diff, False),
    "getNamespacesV1": (get_namespaces, False),
    "getNamespaceV1": (get_namespace, False),
    "createNamespaceV1": (create_namespace, False),
    "deleteNamespaceV1": (delete_namespace, False),
    "updateNamespaceV1": (update_namespace, False),
}
"""The operations of this module: their handlers, and whether they are brief."""
