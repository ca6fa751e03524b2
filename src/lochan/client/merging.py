"""The flows of the merge family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lochan.client.asking import Ask, Flow
from lochan.client.replies import MergeReply, asked
from lochan.client.specs import API, new_key, pinned, pinned_branch
from lochan.model.commits import CommitMeta, ContentKey
from lochan.model.contents import Content
from lochan.model.requests import KeyResolution
from lochan.model.results import Merged
from lochan.model.specs import parse_spec
from lochan.wire.codec import encode
from lochan.wire.contents import optional_out
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
    merged_in,
)
from lochan.wire.metas import meta_to_send

Said = str | CommitMeta | None
"""A message, all that is said of a commit, or nothing: then the server says it."""


class How(msgspec.Struct, frozen=True):
    """How keys are brought together, and what happens with conflicts."""

    default: str
    keys: Mapping[ContentKey, KeyResolution]
    dry_run: bool
    conflicts_as_result: bool
    squash: bool


def merge(branch: str, source: str, said: Said, expected: str | None, how: How) -> Flow[Merged]:
    """Brings a source into a branch."""
    where = yield from pinned_branch(branch, expected)
    origin = yield from pinned(parse_spec(source))
    body = MergeBody(
        from_ref_name=origin.name or "DETACHED",
        from_hash=origin.hash,
        squash=how.squash,
        **_family(said, how),
    )
    return (yield from _asked(where, "merge", body))


def transplant(
    branch: str, source: str, hashes: Sequence[str], said: Said, expected: str | None, how: How
) -> Flow[Merged]:
    """Makes commits of a source again on a branch."""
    where = yield from pinned_branch(branch, expected)
    body = TransplantBody(
        from_ref_name=source,
        hashes_to_transplant=tuple(hashes),
        squash=how.squash,
        **_family(said, how),
    )
    return (yield from _asked(where, "transplant", body))


def cherry_pick(
    branch: str,
    hashes: Sequence[str],
    said: Said,
    source: str | None,
    expected: str | None,
    how: How,
) -> Flow[Merged]:
    """Makes commits again on a branch; one text `a..b` is a range."""
    where = yield from pinned_branch(branch, expected)
    is_range = len(hashes) == 1 and ".." in hashes[0]
    body = CherryPickBody(
        hashes=None if is_range else tuple(hashes),
        range=hashes[0] if is_range else None,
        from_ref_name=source,
        squash=how.squash,
        **_family(said, how),
    )
    return (yield from _asked(where, "cherry-pick", body))


def revert(
    branch: str, hashes: Sequence[str], said: Said, expected: str | None, how: How
) -> Flow[Merged]:
    """Undoes commits of a branch by new ones."""
    where = yield from pinned_branch(branch, expected)
    return (
        yield from _asked(where, "revert", RevertBody(hashes=tuple(hashes), **_family(said, how)))
    )


def rebase(branch: str, onto: str, expected: str | None, how: How) -> Flow[Merged]:
    """Makes the commits of a branch again on top of something else."""
    where = yield from pinned_branch(branch, expected)
    return (yield from _asked(where, "rebase", RebaseBody(onto=onto, **_family(None, how))))


def fast_forward(branch: str, source: str, expected: str | None, *, dry_run: bool) -> Flow[Merged]:
    """Moves a branch ahead."""
    where = yield from pinned_branch(branch, expected)
    body = MoveBody(source=source, is_dry_run=dry_run)
    return (yield from _asked(where, "fast-forward", body))


def force(branch: str, source: str, expected: str | None, *, dry_run: bool) -> Flow[Merged]:
    """Moves a branch anywhere."""
    where = yield from pinned_branch(branch, expected)
    body = MoveBody(source=source, is_dry_run=dry_run)
    return (yield from _asked(where, "force", body))


def _asked(where: str, verb: str, body: msgspec.Struct) -> Flow[Merged]:
    path = f"{API}/trees/{where}/history/{verb}"
    ask = Ask("POST", path, (), encode(body), new_key())
    reply = yield from asked(ask, MergeReply)
    return merged_in(MergeV2(**msgspec.structs.asdict(reply)))


def _family(said: Said, how: How) -> dict[str, Any]:
    return {
        "message": said if isinstance(said, str) else None,
        "commit_meta": meta_to_send(said) if isinstance(said, CommitMeta) else None,
        "key_merge_modes": tuple(_behaviour(key, wish) for key, wish in how.keys.items()) or None,
        "default_key_merge_mode": how.default,
        "is_dry_run": how.dry_run,
        "is_return_conflict_as_result": how.conflicts_as_result,
    }


def _behaviour(key: ContentKey, wish: KeyResolution) -> KeyBehaviourIn:
    return KeyBehaviourIn(
        key=KeyJson(tuple(key)),
        merge_behavior=wish.behaviour,
        expected_target_content=_content(wish.expected_target),
        resolved_content=_content(wish.resolved),
        expected_target_absent=True if wish.expected_target is None else msgspec.UNSET,
        resolved_absent=True if wish.resolved is None else msgspec.UNSET,
    )


def _content(content: Content | msgspec.UnsetType | None) -> Any:
    return msgspec.UNSET if content in (None, msgspec.UNSET) else optional_out(content)
