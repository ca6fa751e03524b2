"""The flows of reading, of references and of commits: what to ask and what to make of the answer.

Pure: a flow yields an `Ask`, is sent the `Reply` and returns a value of `model/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from lochan.base.ids import EMPTY_ID
from lochan.client.asking import Ask, Flow
from lochan.client.replies import (
    CommitReply,
    ConfigReply,
    ContentReply,
    ContentsReply,
    DiffReply,
    EntriesReply,
    HistoryReply,
    JobsReply,
    LogReply,
    MovesReply,
    PreviousReply,
    ReferenceReply,
    ReferencesReply,
    SettingsReply,
    StateReply,
    asked,
)
from lochan.client.specs import (
    API,
    fetch_reference,
    new_key,
    path_of,
    pinned,
    pinned_branch,
)
from lochan.client.values import Config, RecentChanges, RecentHead
from lochan.model.commits import (
    AddedContent,
    CommitMeta,
    Committed,
    ContentKey,
    JobRecord,
    LogEntry,
    Operation,
)
from lochan.model.contents import Content
from lochan.model.references import Reference, ReferenceMove
from lochan.model.requests import NewReference
from lochan.model.results import DiffEntry, Entry, Page
from lochan.model.specs import parse_spec
from lochan.wire.codec import encode
from lochan.wire.commits import commit_request, log_entry_in
from lochan.wire.config import RepositoryConfigUpdate
from lochan.wire.contents import content_in, optional_in
from lochan.wire.instants import instant_to_send, micros
from lochan.wire.jobs import job_in
from lochan.wire.keys import KeyJson, key_to_path
from lochan.wire.listings import ContentsRequest, content_with_key_in, diff_in
from lochan.wire.references import (
    NewReferenceIn,
    NewReferencesIn,
    ReferenceIn,
    annotation_out,
    move_in,
    reference_in,
)

Query = list[tuple[str, str]]


class Within(msgspec.Struct, frozen=True):
    """Which keys of a listing are wanted."""

    keys: tuple[ContentKey, ...] = ()
    start: ContentKey | None = None
    end: ContentKey | None = None
    prefix: ContentKey | None = None
    filter: str = ""


class LogWish(msgspec.Struct, frozen=True):
    """Which commits of a log are wanted, and how much of them."""

    limit_hash: str | None = None
    filter: str = ""
    fetch_all: bool = False


def config() -> Flow[Config]:
    """Asks what the repository says of itself."""
    reply = yield from asked(Ask("GET", f"{API}/config"), ConfigReply)
    created = reply.repository_creation_timestamp
    return Config(
        default_branch=reply.default_branch,
        created_us=None if created is None else micros(created),
        empty_hash=reply.no_ancestor_hash,
        spec_version=reply.spec_version,
    )


def get_reference(name: str, *, fetch_all: bool) -> Flow[Reference]:
    """Asks for a reference by its name."""
    return (yield from fetch_reference(name, fetch_all=fetch_all))


def list_references(
    limit: int | None,
    token: str | None,
    *,
    filter: str,  # noqa: A002 - the name that the API gives it
    fetch_all: bool,
    prefix: str,
) -> Flow[Page[Reference]]:
    """Asks for a page of references; the API has no prefix, so those are chosen here."""
    while True:
        query = _paging(limit, token)
        _add(query, "filter", filter)
        _add(query, "fetch", "ALL" if fetch_all else "")
        reply = yield from asked(Ask("GET", f"{API}/trees", tuple(query)), ReferencesReply)
        token = reply.token
        found = [one for one in reply.references if (one.name or "").startswith(prefix)]
        if found or token is None:
            return Page(tuple(reference_in(one) for one in found), token)


def create_reference(new: NewReference) -> Flow[Reference]:
    """Makes one reference, where its source is now."""
    annotation = None if new.annotation is None else annotation_out(new.annotation)
    expires = None if new.expires_us is None else instant_to_send("expiresAt", new.expires_us)
    if new.source is None:
        body = ReferenceIn(type="DETACHED", hash=EMPTY_ID.hex(), expires_at=expires)
    else:
        source = yield from pinned(new.source)
        body = ReferenceIn(
            type=source.kind,
            name=source.name,
            hash=source.hash,
            expires_at=expires,
            annotation=annotation,
        )
    query = (("name", new.name), ("type", new.kind))
    ask = Ask("POST", f"{API}/trees", query, encode(body), new_key())
    reply = yield from asked(ask, ReferenceReply)
    return reference_in(reply.reference)


def create_references(new: Sequence[NewReference]) -> Flow[tuple[Reference, ...]]:
    """Makes many references, all or none."""
    body = NewReferencesIn(
        tuple(
            NewReferenceIn(
                name=each.name,
                type=each.kind,
                source=None if each.source is None else each.source.text(),
                expires_at=None
                if each.expires_us is None
                else instant_to_send("expiresAt", each.expires_us),
                annotation=None if each.annotation is None else annotation_out(each.annotation),
            )
            for each in new
        )
    )
    ask = Ask("POST", f"{API}/trees/many", (), encode(body), new_key())
    reply = yield from asked(ask, ReferencesReply)
    return tuple(reference_in(each) for each in reply.references)


def assign_reference(
    name: str, target: str, expected: str | None, kind: str | None
) -> Flow[Reference]:
    """Makes a reference point elsewhere."""
    where = yield from pinned_branch(name, expected)
    goal = yield from pinned(parse_spec(target))
    body = encode(ReferenceIn(type=goal.kind, name=goal.name, hash=goal.hash))
    ask = Ask("PUT", f"{API}/trees/{where}", _type(kind), body, new_key())
    reply = yield from asked(ask, ReferenceReply)
    return reference_in(reply.reference)


def delete_reference(name: str, expected: str | None, kind: str | None) -> Flow[Reference]:
    """Takes a reference away."""
    where = yield from pinned_branch(name, expected)
    ask = Ask("DELETE", f"{API}/trees/{where}", _type(kind), None, new_key())
    reply = yield from asked(ask, ReferenceReply)
    return reference_in(reply.reference)


def reference_log(name: str, limit: int | None, token: str | None) -> Flow[Page[ReferenceMove]]:
    """Asks where a reference has been."""
    ask = Ask("GET", f"{API}/trees/{path_of(name)}/reflog", tuple(_paging(limit, token)))
    reply = yield from asked(ask, MovesReply)
    return Page(tuple(move_in(each) for each in reply.moves), reply.token)


def recent_changes(name: str, *, scan_commits: bool) -> Flow[RecentChanges]:
    """Asks for the recent heads of a reference."""
    # The API counts how many to look at; more than none means as many as the server allows.
    query = (("scan-commits", "1000"),) if scan_commits else ()
    ask = Ask("GET", f"{API}/trees/{path_of(name)}/recent-changes", query)
    reply = yield from asked(ask, HistoryReply)
    previous = tuple(_head(each) for each in reply.previous)
    return RecentChanges(reference_in(reply.reference), _head(reply.current), previous)


def entries(
    spec: str, limit: int | None, token: str | None, within: Within, *, with_content: bool
) -> Flow[Page[Entry]]:
    """Asks for a page of keys."""
    query = _paging(limit, token) + _within(within)
    _add(query, "content", "true" if with_content else "")
    ask = Ask("GET", f"{API}/trees/{path_of(spec)}/entries", tuple(query))
    reply = yield from asked(ask, EntriesReply)
    found = tuple(
        Entry(each.name.elements, each.type, each.content_id or "", optional_in(each.content))
        for each in reply.entries
    )
    return Page(found, reply.token, reference_in(reply.effective_reference))


def get_content(spec: str, key: ContentKey) -> Flow[tuple[Content, Reference]]:
    """Asks what one key holds."""
    name = quote(key_to_path(key), safe="")
    ask = Ask("GET", f"{API}/trees/{path_of(spec)}/contents/{name}")
    reply = yield from asked(ask, ContentReply)
    return content_in(reply.content), reference_in(reply.effective_reference)


def get_contents(
    spec: str, keys: Sequence[ContentKey]
) -> Flow[tuple[list[tuple[ContentKey, Content]], Reference]]:
    """Asks what several keys hold."""
    body = encode(ContentsRequest([KeyJson(tuple(key)) for key in keys]))
    ask = Ask("POST", f"{API}/trees/{path_of(spec)}/contents", body=body)
    reply = yield from asked(ask, ContentsReply)
    found = [content_with_key_in(each) for each in reply.contents]
    return found, reference_in(reply.effective_reference)


def find_jobs(spec: str, key: ContentKey, jobs: Sequence[str]) -> Flow[tuple[JobRecord, ...]]:
    """Asks which of some jobs have written what a key holds."""
    if not jobs:
        return ()
    page = yield from _jobs(spec, key, [("job", job) for job in jobs])
    return page.items


def list_jobs(
    spec: str, key: ContentKey, limit: int | None, token: str | None, start: str, prefix: str
) -> Flow[Page[JobRecord]]:
    """Asks for a page of the jobs that have written what a key holds."""
    query = _paging(limit, token)
    _add(query, "min-job", start)
    _add(query, "prefix-job", prefix)
    return (yield from _jobs(spec, key, query))


def _jobs(spec: str, key: ContentKey, query: Query) -> Flow[Page[JobRecord]]:
    query = [("key", key_to_path(key)), *query]
    ask = Ask("GET", f"{API}/trees/{path_of(spec)}/jobs", tuple(query))
    reply = yield from asked(ask, JobsReply)
    found = tuple(job_in(each) for each in reply.jobs)
    return Page(found, reply.token, reference_in(reply.effective_reference))


def log(spec: str, limit: int | None, token: str | None, wanted: LogWish) -> Flow[Page[LogEntry]]:
    """Asks for a page of commits."""
    query = _paging(limit, token)
    _add(query, "limit-hash", wanted.limit_hash or "")
    _add(query, "filter", wanted.filter)
    _add(query, "fetch", "ALL" if wanted.fetch_all else "")
    ask = Ask("GET", f"{API}/trees/{path_of(spec)}/history", tuple(query))
    reply = yield from asked(ask, LogReply)
    return Page(tuple(log_entry_in(each) for each in reply.log_entries), reply.token)


def diff(
    left: str, right: str, limit: int | None, token: str | None, within: Within
) -> Flow[Page[DiffEntry]]:
    """Asks for a page of the keys that differ."""
    query = _paging(limit, token) + _within(within)
    path = f"{API}/trees/{path_of(left)}/diff/{path_of(right)}"
    reply = yield from asked(Ask("GET", path, tuple(query)), DiffReply)
    return Page(
        tuple(diff_in(each) for each in reply.diffs),
        reply.token,
        reference_in(reply.effective_from_reference),
        reference_in(reply.effective_to_reference),
    )


def commit(
    branch: str,
    message: str | CommitMeta,
    operations: Sequence[Operation],
    expected: str | None,
) -> Flow[Committed]:
    """Commits operations on a branch."""
    meta = CommitMeta(message=message) if isinstance(message, str) else message
    where = yield from pinned_branch(branch, expected)
    body = encode(commit_request(meta, operations))
    ask = Ask("POST", f"{API}/trees/{where}/history/commit", body=body, key=new_key())
    reply = yield from asked(ask, CommitReply)
    added = [AddedContent(one.key.elements, one.content_id) for one in reply.added_contents or ()]
    target = reply.target_branch
    return Committed(target.name or parse_spec(branch).name or "", target.hash, tuple(added))


def get_settings(types: Sequence[str]) -> Flow[list[dict[str, Any]]]:
    """Asks for settings that the repository keeps."""
    query = tuple(("type", each) for each in types)
    reply = yield from asked(Ask("GET", f"{API}/config/repository", query), SettingsReply)
    return reply.configs


def update_settings(settings: Mapping[str, Any]) -> Flow[dict[str, Any] | None]:
    """Replaces settings that the repository keeps."""
    body = encode(RepositoryConfigUpdate(dict(settings)))
    ask = Ask("POST", f"{API}/config/repository", body=body, key=new_key())
    reply = yield from asked(ask, PreviousReply)
    return reply.previous


def _head(state: StateReply) -> RecentHead:
    known = {"COMMIT_CONSISTENT": True, "NOT_CHECKED": None}
    return RecentHead(state.commit_hash, known.get(state.commit_consistency, False))


def _type(kind: str | None) -> tuple[tuple[str, str], ...]:
    return () if kind is None else (("type", kind),)


def _paging(limit: int | None, token: str | None) -> Query:
    query: Query = []
    if limit is not None:
        query.append(("max-records", str(limit)))
    _add(query, "page-token", token or "")
    return query


def _within(within: Within) -> Query:
    query: Query = [("key", key_to_path(key)) for key in within.keys]
    for name, key in (
        ("min-key", within.start),
        ("max-key", within.end),
        ("prefix-key", within.prefix),
    ):
        if key is not None:
            query.append((name, key_to_path(key)))
    _add(query, "filter", within.filter)
    return query


def _add(query: Query, name: str, value: str) -> None:
    if value:
        query.append((name, value))
