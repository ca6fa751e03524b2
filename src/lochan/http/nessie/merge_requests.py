"""What the merge family is asked, from either version's request to what `service` takes."""

from __future__ import annotations

from typing import Any

import msgspec

from lochan.base.errors import Invalid
from lochan.http.exchange import Exchange
from lochan.http.nessie.params import with_headers
from lochan.http.nessie.preconditions import check_unambiguous, expected_of
from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.requests import KeyResolution, MergeRequest, TransplantRequest
from lochan.model.specs import ReferenceSpec, check_name, parse_on_reference
from lochan.wire.contents import content_in
from lochan.wire.merges import KeyBehaviourIn, MergeBody, TransplantBody
from lochan.wire.metas import CommitMetaIn, meta_from_client

DETACHED = "DETACHED"


def merge_ask(exchange: Exchange, request: MergeBody, target: ReferenceSpec) -> MergeRequest:
    """Reads what is to be merged into a branch."""
    source = check_unambiguous(_on(request.from_ref_name, request.from_hash), "Source hash")
    branch, expected = expected_of(exchange, target, "merge into")
    return MergeRequest(
        branch=branch,
        expected=expected,
        source=source,
        meta=meta_of(exchange, request.commit_meta, request.message),
        default=request.default_key_merge_mode or "NORMAL",
        keys=wishes_of(request.key_merge_modes),
        dry_run=request.only_try(),
        conflicts_as_result=request.conflicts_as_result(),
        squash=request.squash is not False,
    )


def transplant_ask(
    exchange: Exchange, request: TransplantBody, target: ReferenceSpec
) -> TransplantRequest:
    """Reads which commits are to be made again on a branch."""
    if not request.hashes_to_transplant:
        raise Invalid("No hashes given to transplant.")
    hashes = tuple(
        check_unambiguous(parse_on_reference(None, text), "Hash to transplant")
        for text in request.hashes_to_transplant
    )
    name = check_name(request.from_ref_name)
    branch, expected = expected_of(exchange, target, "transplant into")
    return TransplantRequest(
        branch=branch,
        expected=expected,
        source="" if name == DETACHED else name,
        hashes=hashes,
        meta=meta_of(exchange, request.commit_meta, request.message),
        default=request.default_key_merge_mode or "NORMAL",
        keys=wishes_of(request.key_merge_modes),
        dry_run=request.only_try(),
        conflicts_as_result=request.conflicts_as_result(),
        squash=bool(request.squash),
    )


def meta_of(exchange: Exchange, meta: CommitMetaIn | None, message: str | None) -> CommitMeta:
    """Reads what is to be said of the commits; an empty message lets the server find one."""
    said = CommitMeta(message="") if meta is None else meta_from_client(meta)
    if not said.message and message:
        said = msgspec.structs.replace(said, message=message)
    return with_headers(exchange, said)


def wishes_of(behaviours: tuple[KeyBehaviourIn, ...] | None) -> dict[ContentKey, KeyResolution]:
    """Reads what is wished for single keys."""
    wishes: dict[ContentKey, KeyResolution] = {}
    for position, each in enumerate(behaviours or ()):
        key = each.key.elements
        if key in wishes:
            raise Invalid(f"The key {'.'.join(key)!r} has two merge behaviours.")
        where = f"keyMergeModes[{position}]"
        wishes[key] = KeyResolution(
            behaviour=each.merge_behavior,
            expected_target=_side(
                each.expected_target_content,
                each.expected_target_absent,
                f"{where}.expectedTargetContent",
            ),
            resolved=_side(each.resolved_content, each.resolved_absent, f"{where}.resolvedContent"),
        )
    return wishes


def _side(value: Any, is_absent: bool | msgspec.UnsetType, where: str) -> Any:
    # As in Nessie a null says nothing; clients write it for what they do not mean.
    if value in (None, msgspec.UNSET):
        return None if is_absent is True else msgspec.UNSET
    if is_absent is True:
        raise Invalid(f"{where} names a content and says that there is none; send one of them.")
    return content_in(value, where)


def _on(name: str, digits: str | None) -> ReferenceSpec:
    return parse_on_reference(None if name == DETACHED else check_name(name), digits)
