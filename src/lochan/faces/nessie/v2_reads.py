"""Version 2, reading: configuration, references, entries, contents, history, differences."""

from __future__ import annotations

from typing import Final

from lochan.base.errors import Invalid
from lochan.base.ids import EMPTY_ID
from lochan.faces.answers import answer
from lochan.faces.calls import flag_of, read_call
from lochan.faces.nessie import handlers
from lochan.faces.nessie.handlers import V2_PAGES, whole_or_page
from lochan.faces.nessie.params import (
    filter_of,
    is_plain,
    is_short_page,
    key_range_of,
    keys_of,
    log_limit_of,
    names_few_keys,
)
from lochan.faces.nessie.preconditions import check_readable
from lochan.faces.nessie.responses import reference_for
from lochan.faces.params import Handlers, limit_of, token_of
from lochan.model.commits import ContentKey
from lochan.model.references import PreviousHead, Reference
from lochan.model.specs import ReferenceSpec, parse_on_reference, parse_path
from lochan.service.pages import Selection
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import instant
from lochan.wire.commits import LogV2, log_entry_v2
from lochan.wire.config import ConfigV2, RepositoryConfigs
from lochan.wire.contents import content_out
from lochan.wire.keys import key_from_path
from lochan.wire.listings import (
    ContentResponse,
    ContentsV2,
    DiffV2,
    EntriesV2,
    JobsJson,
    content_with_key,
    diff_out,
    entry_v2,
    job_out,
)
from lochan.wire.metas import meta_v2
from lochan.wire.references import (
    ReferenceHistoryJson,
    ReferenceLog,
    ReferenceStateJson,
    ReferencesV2,
    SingleReference,
    move_out,
)

SPEC_VERSION: Final = "2.2.0"

_CONSISTENCY: Final = {None: "NOT_CHECKED", True: "COMMIT_CONSISTENT", False: "COMMIT_INCONSISTENT"}


def get_config(exchange: Exchange) -> Response:
    """Returns the configuration that clients need."""
    info = exchange.repository.describe(read_call(exchange))
    created = instant(info.created_us)
    return answer(
        ConfigV2(
            default_branch=info.default_branch,
            min_supported_api_version=1,
            max_supported_api_version=2,
            actual_api_version=2,
            spec_version=SPEC_VERSION,
            no_ancestor_hash=EMPTY_ID.hex(),
            repository_creation_timestamp=created,
            oldest_possible_commit_timestamp=created,
        )
    )


def get_repository_config(exchange: Exchange) -> Response:
    """Reads settings that are kept in the repository."""
    types = exchange.request.query.all("type")
    return answer(RepositoryConfigs(exchange.repository.settings.get(read_call(exchange), types)))


def list_references(exchange: Exchange) -> Response:
    """Lists branches and tags."""
    page = handlers.read_references(exchange, V2_PAGES)
    shown = [reference_for(exchange, each) for each in page.items]
    return answer(ReferencesV2(page.token is not None, page.token, shown))


def get_reference(exchange: Exchange) -> Response:
    """Reads one reference by its name."""
    name = only_name(exchange, "fetching a reference by name")
    reference = handlers.read_reference(exchange, name)
    return answer(SingleReference(reference_for(exchange, reference)), reference.hash)


def get_recent_changes(exchange: Exchange) -> Response:
    """Reads where a reference pointed recently; with `scan-commits` also whether it is complete."""
    name = only_name(exchange, "fetching a reference history")
    scans = limit_of(exchange, "scan-commits") is not None
    history = exchange.repository.references.recent_changes(
        read_call(exchange), name, scan_commits=scans
    )
    reference = history.reference
    states = (history.current, *history.previous)
    return answer(
        ReferenceHistoryJson(
            reference_for(exchange, reference),
            _state(exchange, history.current),
            [_state(exchange, each) for each in history.previous],
            _CONSISTENCY[all(each.consistent is not False for each in states) if scans else None],
        ),
        reference.hash,
    )


def _state(exchange: Exchange, head: PreviousHead) -> ReferenceStateJson:
    consistency = _CONSISTENCY[head.consistent]
    if head.consistent is False:
        return ReferenceStateJson(head.hash, consistency, None)
    entries = exchange.repository.history.log(
        read_call(exchange), ReferenceSpec(None, head.hash), 1
    ).items
    meta = meta_v2(entries[0].meta) if entries else None
    return ReferenceStateJson(head.hash, consistency, meta)


def get_reflog(exchange: Exchange) -> Response:
    """Reads the moves of a reference, the newest first."""
    name = only_name(exchange, "reading a ref-log")
    page = exchange.repository.references.log(
        read_call(exchange), name, log_limit_of(exchange), token_of(exchange)
    )
    moves = [move_out(each) for each in page.items]
    return answer(ReferenceLog(page.token is not None, page.token, moves))


def get_entries(exchange: Exchange) -> Response:
    """Lists keys and what they hold."""
    start, end, prefix = key_range_of(exchange)
    selection = Selection(
        keys=keys_of(exchange), start=start, end=end, prefix=prefix, filter=filter_of(exchange)
    )
    with_content = flag_of(exchange, "content")
    spec = check_readable(parse_path(exchange.params["ref"]))
    paging = (limit_of(exchange), token_of(exchange))
    entries, page = whole_or_page(
        exchange, spec, selection, paging, entry_v2, with_content=with_content
    )
    reference = pinned(page.reference)
    effective = reference_for(exchange, reference)
    shown = EntriesV2(page.token is not None, page.token, entries, effective)
    return answer(shown, reference.hash)


def get_content(exchange: Exchange) -> Response:
    """Reads one content."""
    spec = check_readable(parse_path(exchange.params["ref"]))
    key = key_from_path(exchange.params["key"])
    content, reference = exchange.repository.contents.get(read_call(exchange), spec, key)
    shown = ContentResponse(content_out(content), reference_for(exchange, reference))
    return answer(shown, reference.hash)


def get_several_contents(exchange: Exchange) -> Response:
    """Reads the contents of keys that the address names."""
    return _contents(exchange, keys_of(exchange))


def get_multiple_contents(exchange: Exchange) -> Response:
    """Reads the contents of keys that the body names."""
    return _contents(exchange, None)


def _contents(exchange: Exchange, keys: tuple[ContentKey, ...] | None) -> Response:
    spec = check_readable(parse_path(exchange.params["ref"]))
    found, reference = handlers.read_contents(exchange, spec, keys)
    shown = [content_with_key(key, content) for key, content in found]
    return answer(ContentsV2(shown, reference_for(exchange, reference)), reference.hash)


def get_jobs(exchange: Exchange) -> Response:
    """Lists jobs that have written what a key holds, or finds those that the address names."""
    spec = check_readable(parse_path(exchange.params["ref"]))
    query, keys = exchange.request.query, keys_of(exchange)
    if len(keys) != 1:
        raise Invalid("the parameter 'key' names one key, whose jobs are wanted")
    jobs, call = exchange.repository.jobs, read_call(exchange)
    named = query.all("job")
    start, prefix = query.get("min-job") or "", query.get("prefix-job") or ""
    limit, token = limit_of(exchange), token_of(exchange)
    if not named:
        page = jobs.list(call, spec, keys[0], limit, token, start=start, prefix=prefix)
    elif limit or token or start or prefix:
        raise Invalid("jobs that are named by 'job' come all at once; leave the rest out")
    else:
        page = jobs.find(call, spec, keys[0], named)
    reference = pinned(page.reference)
    shown = [job_out(each) for each in page.items]
    return answer(
        JobsJson(page.token is not None, page.token, shown, reference_for(exchange, reference)),
        reference.hash,
    )


def get_log(exchange: Exchange) -> Response:
    """Reads commits from newest to oldest."""
    path = parse_path(exchange.params["ref"])
    last = parse_on_reference(path.name, exchange.request.query.get("limit-hash"))
    spec = check_readable(path, "Youngest hash")
    if last.on_reference:
        check_readable(last, "Oldest hash")
    return handlers.read_log(exchange, spec, last, V2_PAGES, log_entry_v2, LogV2)


def get_diff(exchange: Exchange) -> Response:
    """Reads what differs between two references."""
    left = check_readable(parse_path(exchange.params["ref"]), '"From" hash')
    right = check_readable(parse_path(exchange.params["to-ref"]), '"To" hash')
    start, end, prefix = key_range_of(exchange)
    page = exchange.repository.history.diff(
        read_call(exchange),
        left,
        right,
        limit_of(exchange),
        token_of(exchange),
        keys=keys_of(exchange),
        start=start,
        end=end,
        prefix=prefix,
        filter=filter_of(exchange),
    )
    one, other = pinned(page.reference), pinned(page.other)
    diffs = [diff_out(each) for each in page.items]
    return answer(
        DiffV2(
            page.token is not None,
            page.token,
            diffs,
            reference_for(exchange, one),
            reference_for(exchange, other),
        )
    )


def only_name(exchange: Exchange, purpose: str) -> str:
    """Returns the name of a reference that must come without a hash."""
    path = parse_path(exchange.params["ref"])
    if path.on_reference or path.name is None:
        raise Invalid(f"Hashes are not allowed when {purpose}")
    return path.name


def pinned(reference: Reference | None) -> Reference:
    """Returns the reference that a page was read from; every page of contents has one."""
    if reference is None:
        raise Invalid("the page does not state what it was read from")
    return reference


HANDLERS: Final[Handlers] = {
    "getConfigV2": (get_config, True),
    "getRepositoryConfig": (get_repository_config, True),
    "getAllReferencesV2": (list_references, is_short_page),
    "getReferenceByNameV2": (get_reference, is_plain),
    "getReferenceHistory": (get_recent_changes, False),
    "getEntriesV2": (get_entries, is_short_page),
    "getCommitLogV2": (get_log, is_plain),
    "getDiffV2": (get_diff, is_short_page),
    "getContentV2": (get_content, True),
    "getSeveralContents": (get_several_contents, True),
    "getMultipleContentsV2": (get_multiple_contents, names_few_keys),
    "getJobs": (get_jobs, True),
    "getReflog": (get_reflog, is_short_page),
}
"""The operations of this module: their handlers, and whether they are brief."""
