"""The flows that change a branch: commits, merges and moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lochan.client.failures import exchange
from lochan.client.flows.files import files_path
from lochan.client.messages import Flow, HttpRequest, Query, new_idempotency_key, query_of
from lochan.client.specs import commit_text, pin, pinned_tree_path
from lochan.model.commits import AddedContent, CommitMeta, Committed, ContentKey
from lochan.model.contents import Content
from lochan.model.requests import (
    BranchRequest,
    CherryPickRequest,
    CommitRequest,
    FastForwardRequest,
    ForceRequest,
    KeyResolution,
    MergeRequest,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.results import Merged
from lochan.model.specs import ReferenceSpec
from lochan.wire.codec import encode
from lochan.wire.commits import AddedContentJson, commit_to_send
from lochan.wire.contents import content_out
from lochan.wire.keys import KeyJson
from lochan.wire.merges import (
    CherryPickBody,
    KeyBehaviourIn,
    MergeBody,
    MergeV2,
    MoveBody,
    RebaseBody,
    RevertBody,
    TransplantBody,
    key_outcome_in,
    path_outcome_in,
)
from lochan.wire.metas import meta_to_send
from lochan.wire.references import ReferenceV2, reference_in


class CommitReply(msgspec.Struct, frozen=True, rename="camel"):
    """The branch after a commit; Nessie sends null where no content is new."""

    target_branch: ReferenceV2
    added_contents: list[AddedContentJson] | None = None


def commit(request: CommitRequest) -> Flow[Committed]:
    """Commits operations to a branch."""
    body = encode(commit_to_send(request.meta, request.operations))
    query: Query = ()
    if request.staged:
        spec = request.expected or ReferenceSpec()
        path = files_path(ReferenceSpec(request.branch, spec.hash, spec.steps), "commit")
        query = query_of(allow_empty="true" if request.allow_empty else None)
    else:
        path = yield from pinned_tree_path(request.branch, request.expected)
        path += "/history/commit"
    http = HttpRequest("POST", path, query, body, new_idempotency_key())
    reply = yield from exchange(http, CommitReply)
    added = (
        AddedContent(each.key.elements, each.content_id) for each in reply.added_contents or ()
    )
    branch = reference_in(reply.target_branch)
    return Committed(branch.name or request.branch, branch.hash, tuple(added))


def merge(request: MergeRequest) -> Flow[Merged]:
    """Merges a source into a branch."""
    path = yield from pinned_tree_path(request.branch, request.expected)
    source = yield from pin(request.source)
    body = MergeBody(
        from_ref_name=source.name or "DETACHED",
        from_hash=source.hash,
        squash=request.squash,
        **_meta(request.meta),
        **_choices(request),
    )
    return (yield from _send(f"{path}/history/merge", body))


def transplant(request: TransplantRequest) -> Flow[Merged]:
    """Makes commits of a source again on a branch."""
    body = TransplantBody(
        from_ref_name=request.source,
        hashes_to_transplant=tuple(commit_text(each) for each in request.hashes),
        squash=request.squash,
        **_meta(request.meta),
        **_choices(request),
    )
    return (yield from _change(request, "transplant", body))


def cherry_pick(request: CherryPickRequest) -> Flow[Merged]:
    """Makes commits again on a branch."""
    hashes = tuple(commit_text(each) for each in request.hashes)
    body = CherryPickBody(
        hashes=hashes if request.after is None else None,
        range=None if request.after is None else f"{commit_text(request.after)}..{hashes[0]}",
        from_ref_name=request.source or None,
        squash=request.squash,
        **_meta(request.meta),
        **_choices(request),
    )
    return (yield from _change(request, "cherry-pick", body))


def revert(request: RevertRequest) -> Flow[Merged]:
    """Undoes commits of a branch by new ones."""
    body = RevertBody(
        hashes=tuple(commit_text(each) for each in request.hashes),
        is_dry_run=request.dry_run,
        is_return_conflict_as_result=request.conflicts_as_result,
        **_meta(request.meta),
    )
    return (yield from _change(request, "revert", body))


def rebase(request: RebaseRequest) -> Flow[Merged]:
    """Makes the commits of a branch again on top of another commit."""
    body = RebaseBody(
        onto=request.onto.text(),
        key_merge_modes=_behaviours(request.keys),
        path_merge_modes=dict(request.paths) or None,
        default_key_merge_mode=request.default,
        is_dry_run=request.dry_run,
    )
    return (yield from _change(request, "rebase", body))


def fast_forward(request: FastForwardRequest) -> Flow[Merged]:
    """Moves a branch ahead."""
    body = MoveBody(source=request.source.text(), is_dry_run=request.dry_run)
    return (yield from _change(request, "fast-forward", body))


def force(request: ForceRequest) -> Flow[Merged]:
    """Moves a branch to any commit."""
    body = MoveBody(source=request.source.text(), is_dry_run=request.dry_run)
    return (yield from _change(request, "force", body))


def _change(request: BranchRequest, verb: str, body: msgspec.Struct) -> Flow[Merged]:
    path = yield from pinned_tree_path(request.branch, request.expected)
    return (yield from _send(f"{path}/history/{verb}", body))


def _send(path: str, body: msgspec.Struct) -> Flow[Merged]:
    http = HttpRequest("POST", path, (), encode(body), new_idempotency_key())
    reply = yield from exchange(http, MergeV2)
    return Merged(
        branch=reply.target_branch,
        applied=reply.was_applied,
        successful=reply.was_successful,
        hash=reply.resultant_target_hash,
        effective_target=reply.effective_target_hash,
        expected=reply.expected_hash,
        common_ancestor=reply.common_ancestor,
        keys=tuple(key_outcome_in(each) for each in reply.details),
        commits=() if reply.commits is msgspec.UNSET else reply.commits,
        paths=()
        if reply.path_details is msgspec.UNSET
        else tuple(path_outcome_in(each) for each in reply.path_details),
    )


def _meta(meta: CommitMeta | None) -> dict[str, Any]:
    """Returns the fields for the meta of a commit: the message alone if it is all that is given."""
    if meta is None or meta == CommitMeta(message=meta.message):
        return {"message": None if meta is None else meta.message}
    return {"commit_meta": meta_to_send(meta)}


def _choices(request: MergeRequest | TransplantRequest) -> dict[str, Any]:
    return {
        "key_merge_modes": _behaviours(request.keys),
        "path_merge_modes": dict(request.paths) or None,
        "default_key_merge_mode": request.default,
        "is_dry_run": request.dry_run,
        "is_return_conflict_as_result": request.conflicts_as_result,
    }


def _behaviours(keys: Mapping[ContentKey, KeyResolution]) -> tuple[KeyBehaviourIn, ...] | None:
    return tuple(_behaviour(key, resolution) for key, resolution in keys.items()) or None


def _behaviour(key: ContentKey, resolution: KeyResolution) -> KeyBehaviourIn:
    return KeyBehaviourIn(
        key=KeyJson(key),
        merge_behavior=resolution.behaviour,
        expected_target_content=_content(resolution.expected_target),
        resolved_content=_content(resolution.resolved),
        expected_target_absent=True if resolution.expected_target is None else msgspec.UNSET,
        resolved_absent=True if resolution.resolved is None else msgspec.UNSET,
    )


def _content(content: Content | msgspec.UnsetType | None) -> Any:
    return msgspec.UNSET if content is None or content is msgspec.UNSET else content_out(content)
