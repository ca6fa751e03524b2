"""The flows of branches and tags."""

from __future__ import annotations

import msgspec

from lochan.base.ids import EMPTY_ID
from lochan.client.failures import exchange
from lochan.client.messages import (
    Flow,
    HttpRequest,
    Query,
    new_idempotency_key,
    page_query,
    query_of,
)
from lochan.client.specs import TREES, fetch_reference, pin, pinned_tree_path, tree_path
from lochan.model.references import PreviousHead, Reference, ReferenceHistory, ReferenceMove
from lochan.model.requests import (
    AssignReferenceRequest,
    DeleteReferenceRequest,
    GetReferenceRequest,
    ListReferencesRequest,
    NewReference,
    NewReferencesRequest,
    RecentChangesRequest,
    ReferenceLogRequest,
)
from lochan.model.results import Page
from lochan.model.specs import parse_spec
from lochan.wire.codec import encode, instant_to_send
from lochan.wire.references import (
    NewReferenceIn,
    NewReferencesIn,
    ReferenceHistoryJson,
    ReferenceIn,
    ReferenceList,
    ReferenceLog,
    ReferenceStateJson,
    ReferencesV2,
    SingleReference,
    annotation_out,
    move_in,
    reference_in,
)

_CONSISTENCY = {"COMMIT_CONSISTENT": True, "NOT_CHECKED": None}


def get(request: GetReferenceRequest) -> Flow[Reference]:
    """Fetches one reference."""
    return (yield from fetch_reference(request.name, fetch_all=request.fetch_all))


def list_page(request: ListReferencesRequest) -> Flow[Page[Reference]]:
    """Fetches a page of references; the API has no prefix, so the client applies it."""
    more = query_of(filter=request.filter, fetch="ALL" if request.fetch_all else None)
    while True:
        http = HttpRequest("GET", TREES, page_query(request) + more)
        reply = yield from exchange(http, ReferencesV2)
        found = [each for each in reply.references if (each.name or "").startswith(request.prefix)]
        if found or reply.token is None:
            return Page(tuple(reference_in(each) for each in found), reply.token)
        request = msgspec.structs.replace(request, token=reply.token)


def create(new: NewReference) -> Flow[Reference]:
    """Creates one reference, where its source is now."""
    sent = _to_send(new)
    if new.source is None:
        body = ReferenceIn(type="DETACHED", hash=EMPTY_ID.hex(), expires_at=sent.expires_at)
    else:
        source = yield from pin(new.source)
        body = ReferenceIn(
            type=source.kind,
            name=source.name,
            hash=source.hash,
            expires_at=sent.expires_at,
            annotation=sent.annotation,
        )
    query = (("name", new.name), ("type", new.kind))
    return (yield from _write("POST", TREES, query, encode(body)))


def create_many(request: NewReferencesRequest) -> Flow[tuple[Reference, ...]]:
    """Creates many references, all or none."""
    body = encode(NewReferencesIn(tuple(_to_send(each) for each in request.new)))
    http = HttpRequest("POST", f"{TREES}/many", (), body, new_idempotency_key())
    reply = yield from exchange(http, ReferenceList)
    return tuple(reference_in(each) for each in reply.references)


def assign(request: AssignReferenceRequest) -> Flow[Reference]:
    """Makes a reference point at another commit."""
    path = yield from pinned_tree_path(request.name, request.expected)
    target = yield from pin(request.target)
    body = encode(ReferenceIn(type=target.kind, name=target.name, hash=target.hash))
    return (yield from _write("PUT", path, query_of(type=request.kind), body))


def delete(request: DeleteReferenceRequest) -> Flow[Reference]:
    """Deletes a reference."""
    path = yield from pinned_tree_path(request.name, request.expected)
    return (yield from _write("DELETE", path, query_of(type=request.kind), None))


def log(request: ReferenceLogRequest) -> Flow[Page[ReferenceMove]]:
    """Fetches a page of a ref-log."""
    http = HttpRequest("GET", f"{tree_path(parse_spec(request.name))}/reflog", page_query(request))
    reply = yield from exchange(http, ReferenceLog)
    return Page(tuple(move_in(each) for each in reply.moves), reply.token)


def recent_changes(request: RecentChangesRequest) -> Flow[ReferenceHistory]:
    """Fetches the recent heads of a reference."""
    # The API takes a number of commits; any number scans as many as the server allows.
    query = query_of(scan_commits="1000" if request.scan_commits else None)
    http = HttpRequest("GET", f"{tree_path(parse_spec(request.name))}/recent-changes", query)
    reply = yield from exchange(http, ReferenceHistoryJson)
    previous = tuple(_head(each) for each in reply.previous)
    return ReferenceHistory(reference_in(reply.reference), _head(reply.current), previous)


def _write(method: str, path: str, query: Query, body: bytes | None) -> Flow[Reference]:
    http = HttpRequest(method, path, query, body, new_idempotency_key())
    reply = yield from exchange(http, SingleReference)
    return reference_in(reply.reference)


def _to_send(new: NewReference) -> NewReferenceIn:
    expires_us = new.expires_us
    return NewReferenceIn(
        name=new.name,
        type=new.kind,
        source=None if new.source is None else new.source.text(),
        expires_at=None if expires_us is None else instant_to_send("expiresAt", expires_us),
        annotation=None if new.annotation is None else annotation_out(new.annotation),
    )


def _head(state: ReferenceStateJson) -> PreviousHead:
    consistent = _CONSISTENCY.get(state.commit_consistency, False)
    return PreviousHead(state.commit_hash, consistent=consistent)
