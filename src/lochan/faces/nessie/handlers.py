"""What the handlers of both versions do alike; `show` and `shape` write the answer of a version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from lochan.base.errors import Invalid
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.faces.answers import answer
from lochan.faces.calls import read_call, write_call
from lochan.faces.nessie.params import fetches_all, filter_of, log_limit_of, with_headers
from lochan.faces.nessie.preconditions import check_unambiguous, expected_of
from lochan.faces.nessie.responses import later
from lochan.faces.params import limit_of, token_of
from lochan.model.commits import CommitMeta, Committed, ContentKey, LogEntry
from lochan.model.contents import Content
from lochan.model.references import Reference
from lochan.model.requests import KeyResolution, MergeRequest, TransplantRequest
from lochan.model.results import Entry, Merged, Page
from lochan.model.specs import ReferenceSpec, check_name, parse_on_reference
from lochan.service.pages import Selection
from lochan.service.pending_writes import PendingWrite
from lochan.transport.exchange import Exchange, Response
from lochan.wire.codec import Reader, encode, joined
from lochan.wire.commits import read_commit
from lochan.wire.contents import content_in
from lochan.wire.listings import ContentsRequest
from lochan.wire.merges import CherryPickBody, KeyBehaviourIn, MergeBody, TransplantBody
from lochan.wire.metas import CommitMetaIn, meta_from_client
from lochan.wire.references import ReferenceIn

DETACHED: Final = "DETACHED"

read_reference_body: Final = Reader(ReferenceIn)
read_merge: Final = Reader(MergeBody)
read_transplant: Final = Reader(TransplantBody)
_read_keys: Final = Reader(ContentsRequest)

_Shown = TypeVar("_Shown")


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


def whole_or_page(
    exchange: Exchange,
    spec: ReferenceSpec,
    selection: Selection,
    paging: tuple[int | None, str | None],
    show: Callable[[Entry], _Shown],
    *,
    with_content: bool = False,
) -> tuple[list[_Shown], Page[Any]]:
    """Returns the entries of one page, or without a limit and a filter those of all pages.

    The second is the page that states where all was read and whether there is more. All pages are
    written slice by slice: all entries of a large commit as objects would take hundreds of
    megabytes, and to release them at once would delay all other requests.
    """
    limit, token = paging
    is_page = limit is not None or bool(selection.filter)
    pages = exchange.repository.contents.entry_pages(
        read_call(exchange),
        spec,
        selection,
        limit if is_page else PAGE_ENTRIES_MAX,
        token,
        with_content=with_content,
    )
    first = next(pages)
    if is_page:
        return [show(entry) for entry in first.items], first
    written = [encode([show(entry) for entry in first.items])]
    written += [encode([show(entry) for entry in page.items]) for page in pages]
    whole: Page[Entry] = Page((), None, first.reference)
    # Encoded bytes in place of the list: the encoder of the answer writes them as they are.
    return cast("list[_Shown]", joined(written)), whole


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
    name = None if body.from_ref_name == DETACHED else check_name(body.from_ref_name)
    source = check_unambiguous(parse_on_reference(name, body.from_hash), "Source hash")
    branch, expected = expected_of(exchange, path, "merge into")
    request = MergeRequest(
        branch=branch,
        expected=expected,
        source=source,
        meta=meta_of(exchange, body.commit_meta, body.message),
        default=body.default_key_merge_mode or "NORMAL",
        keys=resolutions_of(body.key_merge_modes),
        paths=body.path_merge_modes or {},
        dry_run=body.only_try(),
        conflicts_as_result=body.conflicts_as_result(),
        squash=body.squash is not False,
    )
    prepared = exchange.repository.merges.merge(write_call(exchange), request)
    return later_merged(prepared, show, "merge into")


def transplant(
    exchange: Exchange, body: TransplantBody, path: ReferenceSpec, show: Callable[[Merged], Any]
) -> PendingWrite[Response]:
    """Makes commits of a reference again on a branch."""
    if not body.hashes_to_transplant:
        raise Invalid("No hashes given to transplant.")
    hashes = tuple(
        check_unambiguous(parse_on_reference(None, text), "Hash to transplant")
        for text in body.hashes_to_transplant
    )
    name = check_name(body.from_ref_name)
    branch, expected = expected_of(exchange, path, "transplant into")
    source = "" if name == DETACHED else name
    request = carried_request(exchange, body, branch, expected, source, hashes)
    prepared = exchange.repository.merges.transplant(write_call(exchange), request)
    return later_merged(prepared, show, "transplant into")


def carried_request(
    exchange: Exchange,
    body: TransplantBody | CherryPickBody,
    branch: str,
    expected: ReferenceSpec | None,
    source: str,
    hashes: tuple[ReferenceSpec, ...],
) -> TransplantRequest:
    """Returns the request to make commits again on a branch."""
    return TransplantRequest(
        branch=branch,
        expected=expected,
        source=source,
        hashes=hashes,
        meta=meta_of(exchange, body.commit_meta, body.message),
        default=body.default_key_merge_mode or "NORMAL",
        keys=resolutions_of(body.key_merge_modes),
        paths=body.path_merge_modes or {},
        dry_run=body.only_try(),
        conflicts_as_result=body.conflicts_as_result(),
        squash=bool(body.squash),
    )


def meta_of(exchange: Exchange, meta: CommitMetaIn | None, message: str | None) -> CommitMeta:
    """Returns the metadata of the new commits; the server replaces an empty message."""
    result = CommitMeta(message="") if meta is None else meta_from_client(meta)
    if not result.message and message:
        result = msgspec.structs.replace(result, message=message)
    return with_headers(exchange, result)


def resolutions_of(
    behaviours: tuple[KeyBehaviourIn, ...] | None,
) -> dict[ContentKey, KeyResolution]:
    """Returns how single keys are to be treated."""
    resolutions: dict[ContentKey, KeyResolution] = {}
    for position, each in enumerate(behaviours or ()):
        key = each.key.elements
        if key in resolutions:
            raise Invalid(f"The key {'.'.join(key)!r} has two merge behaviours.")
        where = f"keyMergeModes[{position}]"
        resolutions[key] = KeyResolution(
            behaviour=each.merge_behavior,
            expected_target=_side(
                each.expected_target_content,
                each.expected_target_absent,
                f"{where}.expectedTargetContent",
            ),
            resolved=_side(each.resolved_content, each.resolved_absent, f"{where}.resolvedContent"),
        )
    return resolutions


def _side(value: Any, is_absent: bool | msgspec.UnsetType, where: str) -> Any:
    # As in Nessie a null is the same as a missing field; some clients write all fields.
    if value in (None, msgspec.UNSET):
        return None if is_absent is True else msgspec.UNSET
    if is_absent is True:
        raise Invalid(f"{where} names a content and says that there is none; send one of them.")
    return content_in(value, where)


def later_merged(
    prepared: PendingWrite[Merged], show: Callable[[Merged], Any], purpose: str
) -> PendingWrite[Response]:
    """Returns a write of the merge family, answered when it is published."""
    return later(prepared, lambda merged: merged_response(merged, show(merged)), purpose)


def merged_response(merged: Merged, shown: Any) -> Response:
    """Returns the answer of the merge family, tagged with the hash of the branch."""
    return answer(shown, merged.hash or merged.effective_target)
