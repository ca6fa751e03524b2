"""Requests of the merge family, from the body of either version to the values of `model/`."""

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


def merge_request(exchange: Exchange, body: MergeBody, target: ReferenceSpec) -> MergeRequest:
    """Returns the request of a merge into a branch."""
    source = check_unambiguous(_on(body.from_ref_name, body.from_hash), "Source hash")
    branch, expected = expected_of(exchange, target, "merge into")
    return MergeRequest(
        branch=branch,
        expected=expected,
        source=source,
        meta=meta_of(exchange, body.commit_meta, body.message),
        default=body.default_key_merge_mode or "NORMAL",
        keys=resolutions_of(body.key_merge_modes),
        dry_run=body.only_try(),
        conflicts_as_result=body.conflicts_as_result(),
        squash=body.squash is not False,
    )


def transplant_request(
    exchange: Exchange, body: TransplantBody, target: ReferenceSpec
) -> TransplantRequest:
    """Returns the request to make commits again on a branch."""
    if not body.hashes_to_transplant:
        raise Invalid("No hashes given to transplant.")
    hashes = tuple(
        check_unambiguous(parse_on_reference(None, text), "Hash to transplant")
        for text in body.hashes_to_transplant
    )
    name = check_name(body.from_ref_name)
    branch, expected = expected_of(exchange, target, "transplant into")
    return TransplantRequest(
        branch=branch,
        expected=expected,
        source="" if name == DETACHED else name,
        hashes=hashes,
        meta=meta_of(exchange, body.commit_meta, body.message),
        default=body.default_key_merge_mode or "NORMAL",
        keys=resolutions_of(body.key_merge_modes),
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


def _on(name: str, digits: str | None) -> ReferenceSpec:
    return parse_on_reference(None if name == DETACHED else check_name(name), digits)
