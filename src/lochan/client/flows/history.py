"""The flows of logs and differences."""

from __future__ import annotations

from lochan.client.failures import exchange
from lochan.client.flows.queries import keys_query, page_query, query_of
from lochan.client.messages import Flow, HttpRequest
from lochan.client.specs import quoted_spec, tree_path
from lochan.model.commits import LogEntry
from lochan.model.requests import DiffRequest, LogRequest
from lochan.model.results import DiffEntry, Page
from lochan.wire.commits import LogV2, log_entry_in
from lochan.wire.listings import DiffV2, diff_in
from lochan.wire.references import reference_in


def log(request: LogRequest) -> Flow[Page[LogEntry]]:
    """Fetches a page of commits."""
    query = page_query(request) + query_of(
        limit_hash=None if request.limit_hash is None else request.limit_hash.on_reference,
        filter=request.filter,
        fetch="ALL" if request.fetch_all else None,
    )
    http = HttpRequest("GET", f"{tree_path(request.spec)}/history", query)
    reply = yield from exchange(http, LogV2)
    return Page(tuple(log_entry_in(each) for each in reply.log_entries), reply.token)


def diff(request: DiffRequest) -> Flow[Page[DiffEntry]]:
    """Fetches a page of the keys that differ."""
    path = f"{tree_path(request.left)}/diff/{quoted_spec(request.right)}"
    reply = yield from exchange(HttpRequest("GET", path, keys_query(request)), DiffV2)
    return Page(
        tuple(diff_in(each) for each in reply.diffs),
        reply.token,
        reference_in(reply.effective_from_reference),
        reference_in(reply.effective_to_reference),
    )
