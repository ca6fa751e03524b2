"""What the handlers of both versions do alike; `show` and `shape` write the answer of a version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from lochan.http.exchange import Exchange, Response
from lochan.http.nessie.merge_requests import merge_request, transplant_request
from lochan.http.nessie.params import (
    fetches_all,
    filter_of,
    limit_of,
    log_limit_of,
    read_call,
    token_of,
    with_headers,
    write_call,
)
from lochan.http.nessie.preconditions import expected_of
from lochan.http.nessie.responses import answer, later
from lochan.model.commits import Committed, ContentKey, LogEntry
from lochan.model.contents import Content
from lochan.model.references import Reference
from lochan.model.results import Merged, Page
from lochan.model.specs import ReferenceSpec
from lochan.service.pending_writes import PendingWrite
from lochan.wire.codec import Reader
from lochan.wire.commits import read_commit
from lochan.wire.listings import ContentsRequest
from lochan.wire.merges import MergeBody, TransplantBody

_read_keys: Final = Reader(ContentsRequest)


class PageParams(msgspec.Struct, frozen=True):
    """What the parameters of a page are called in a version."""

    limit: str
    token: str


V1_PAGES: Final = PageParams("maxRecords", "pageToken")
V2_PAGES: Final = PageParams("max-records", "page-token")


def read_references(exchange: Exchange, params: PageParams) -> Page[Reference]:
    """Reads a page of branches and tags."""
    return exchange.repository.references.list(
        read_call(exchange),
        limit_of(exchange, params.limit),
        token_of(exchange, params.token),
        filter=filter_of(exchange),
        fetch_all=fetches_all(exchange),
    )


def read_reference(exchange: Exchange, name: str) -> Reference:
    """Reads a branch or a tag by its name."""
    references = exchange.repository.references
    return references.get(read_call(exchange), name, fetch_all=fetches_all(exchange))


def read_log(
    exchange: Exchange,
    spec: ReferenceSpec,
    last: ReferenceSpec,
    params: PageParams,
    show: Callable[[LogEntry], Any],
    shape: Callable[[bool, str | None, list[Any]], Any],
) -> Response:
    """Reads a page of commits, from newest to oldest, down to the last if that names one."""
    page = exchange.repository.history.log(
        read_call(exchange),
        spec,
        log_limit_of(exchange, params.limit),
        token_of(exchange, params.token),
        limit_hash=last if last.on_reference else None,
        filter=filter_of(exchange),
        fetch_all=fetches_all(exchange),
    )
    shown = shape(page.token is not None, page.token, [show(entry) for entry in page.items])
    return answer(shown, None if page.reference is None else page.reference.hash)


def read_contents(
    exchange: Exchange, spec: ReferenceSpec, keys: Sequence[ContentKey] | None = None
) -> tuple[list[tuple[ContentKey, Content]], Reference]:
    """Reads the contents of keys, those that the body names unless they are given."""
    if keys is None:
        request: ContentsRequest = _read_keys(exchange.request.body)
        keys = [key.elements for key in request.requested_keys]
    return exchange.repository.contents.get_many(read_call(exchange), spec, keys)


def commit(
    exchange: Exchange, path: ReferenceSpec, show: Callable[[Committed], Any]
) -> PendingWrite[Response]:
    """Commits the operations of the body to a branch."""
    meta, operations = read_commit(exchange.request.body)
    branch, expected = expected_of(exchange, path, "commit into")
    prepared = exchange.repository.commits.commit(
        write_call(exchange), branch, expected, with_headers(exchange, meta), operations
    )
    return later(prepared, lambda committed: answer(show(committed), committed.hash))


def merge(
    exchange: Exchange, body: MergeBody, path: ReferenceSpec, show: Callable[[Merged], Any]
) -> PendingWrite[Response]:
    """Merges a reference into a branch."""
    request = merge_request(exchange, body, path)
    prepared = exchange.repository.merges.merge(write_call(exchange), request)
    return later_merged(prepared, show, "merge into")


def transplant(
    exchange: Exchange, body: TransplantBody, path: ReferenceSpec, show: Callable[[Merged], Any]
) -> PendingWrite[Response]:
    """Makes commits of a reference again on a branch."""
    request = transplant_request(exchange, body, path)
    prepared = exchange.repository.merges.transplant(write_call(exchange), request)
    return later_merged(prepared, show, "transplant into")


def later_merged(
    prepared: PendingWrite[Merged], show: Callable[[Merged], Any], purpose: str
) -> PendingWrite[Response]:
    """Returns a write of the merge family, answered when it is published."""
    return later(prepared, lambda merged: merged_response(merged, show(merged)), purpose)


def merged_response(merged: Merged, shown: Any) -> Response:
    """Returns the answer of the merge family, tagged with the hash of the branch."""
    return answer(shown, merged.hash or merged.effective_target)
