"""The flows that read keys, contents, the jobs that wrote them, logs and differences."""

from __future__ import annotations

from urllib.parse import quote

from lochan.client.failures import exchange
from lochan.client.messages import Flow, HttpRequest, Query, keys_query, page_query, query_of
from lochan.client.specs import quoted_spec, tree_path
from lochan.model.commits import ContentKey, JobRecord, LogEntry
from lochan.model.contents import Content
from lochan.model.references import Reference
from lochan.model.requests import (
    DiffRequest,
    FindJobsRequest,
    GetContentRequest,
    GetContentsRequest,
    ListEntriesRequest,
    ListJobsRequest,
    LogRequest,
)
from lochan.model.results import DiffEntry, Entry, Page
from lochan.model.specs import ReferenceSpec
from lochan.wire.codec import encode
from lochan.wire.commits import LogV2, log_entry_in
from lochan.wire.contents import content_in, optional_in
from lochan.wire.keys import KeyJson, key_to_path
from lochan.wire.listings import (
    ContentResponse,
    ContentsRequest,
    ContentsV2,
    DiffV2,
    EntriesV2,
    JobsJson,
    content_with_key_in,
    diff_in,
    job_in,
)
from lochan.wire.references import reference_in


def entries(request: ListEntriesRequest) -> Flow[Page[Entry]]:
    """Fetches a page of keys."""
    query = keys_query(request) + query_of(content="true" if request.with_content else None)
    reply = yield from exchange(
        HttpRequest("GET", f"{tree_path(request.spec)}/entries", query), EntriesV2
    )
    found = tuple(
        Entry(each.name.elements, each.type, each.content_id or "", optional_in(each.content))
        for each in reply.entries
    )
    return Page(found, reply.token, reference_in(reply.effective_reference))


def get(request: GetContentRequest) -> Flow[tuple[Content, Reference]]:
    """Fetches the content of one key."""
    key = quote(key_to_path(request.key), safe="")
    http = HttpRequest("GET", f"{tree_path(request.spec)}/contents/{key}")
    reply = yield from exchange(http, ContentResponse)
    return content_in(reply.content), reference_in(reply.effective_reference)


def get_many(
    request: GetContentsRequest,
) -> Flow[tuple[list[tuple[ContentKey, Content]], Reference]]:
    """Fetches the contents of several keys."""
    body = encode(ContentsRequest([KeyJson(key) for key in request.keys]))
    http = HttpRequest("POST", f"{tree_path(request.spec)}/contents", body=body)
    reply = yield from exchange(http, ContentsV2)
    found = [content_with_key_in(each) for each in reply.contents]
    return found, reference_in(reply.effective_reference)


def find_jobs(request: FindJobsRequest) -> Flow[tuple[JobRecord, ...]]:
    """Fetches the records of some jobs of a key."""
    if not request.jobs:
        return ()
    jobs = tuple(("job", job) for job in request.jobs)
    page = yield from _jobs(request.spec, request.key, jobs)
    return page.items


def list_jobs(request: ListJobsRequest) -> Flow[Page[JobRecord]]:
    """Fetches a page of the jobs of a key."""
    query = page_query(request) + query_of(min_job=request.start, prefix_job=request.prefix)
    return (yield from _jobs(request.spec, request.key, query))


def _jobs(spec: ReferenceSpec, key: ContentKey, query: Query) -> Flow[Page[JobRecord]]:
    query = (("key", key_to_path(key)), *query)
    reply = yield from exchange(HttpRequest("GET", f"{tree_path(spec)}/jobs", query), JobsJson)
    found = tuple(job_in(each) for each in reply.jobs)
    return Page(found, reply.token, reference_in(reply.effective_reference))


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
