"""One key for one content: a merge does not bring a content under a second key.

Two branches may rename one content to different names. Looked at key by key both renames fit, and
the merged branch would hold the content under both names; no commit could update them together.
The same comes of a rename whose old key is kept (DROP, TAKE_TARGET_ON_CONFLICT), of a pick or a
revert of a commit on a branch that has renamed the content since, and of a resolved content with
the id of another.

A commit holds each content once. So a key of the head that holds a content which arrives under
another key is either among the keys that the changes name, or it differs between the head and the
commit that the changes start from. Only requests that bring an id to a key which does not hold it
pay for that difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from lochan.base.keys import Universe, ordered
from lochan.catalog.conflicts import key_of, text_of
from lochan.catalog.contents import (
    find_raw_content_id,
    has_id_in_value,
    load_content_ids,
    raw_content_id_at,
)
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import TABLE_WIDTH, UUID_BYTES
from lochan.index.difference import Difference
from lochan.index.layers import find_changed
from lochan.index.node import Node, key_at
from lochan.kernel.build import Head
from lochan.kernel.context import RepositoryContext
from lochan.kernel.merge import Carried
from lochan.kernel.plan import CommitPlan, Operation
from lochan.kernel.views import CommitView
from lochan.model.results import ContentConflict

KEY_CONFLICT: Final = "KEY_CONFLICT"

_TABLES: Final = bytes((Universe.TABLES,))


_Id = bytes | str
"""A content id: the bytes of its UUID, or its text if it is none. Texts are slow to make."""


class SharedContent(msgspec.Struct, frozen=True):
    """A content that would be under two keys: the one that it is brought to, and another."""

    key: bytes
    other: bytes

    def conflict(self) -> ContentConflict:
        """The conflict in words, and the next step."""
        key, other = text_of(key_of(self.key)), text_of(key_of(self.other))
        words = (
            f"content of key '{key}' would also be under key '{other}': it was renamed on one side "
            f"and kept or renamed on the other; use DROP for '{key}', or rename '{other}' first"
        )
        return ContentConflict(KEY_CONFLICT, key_of(self.key), words)


def find_shared(
    context: RepositoryContext,
    types: ContentTypes,
    head: Head,
    carried: Sequence[Carried],
    plans: Sequence[CommitPlan],
) -> list[SharedContent]:
    """Returns the contents that would be under two keys after any of the planned commits."""
    lines = [[op for op in plan.operations if op.key[0] == Universe.TABLES] for plan in plans]
    keys = ordered(op.key for line in lines for op in line)
    ids = _Ids(context, types, head)
    found = head.find(keys)
    current = {key: ids.of(found[key]) for key in keys}
    puts = [[ids.of(op.element) for op in line] for line in lines]
    arriving = _arriving(lines, puts, current)
    if not arriving:
        return []
    # Keys that the changes name may be the same at the base and on the head, if they are kept.
    changed = ordered(change.key for one in carried for change in one.changes)
    named = [key for key in changed if key[:1] == _TABLES and key not in current]
    kept = head.find(named)
    current |= {key: ids.of(kept[key]) for key in named}
    # Nearly all arrive under one key, and no other key holds them: those cannot be shared.
    holders: dict[_Id, set[bytes]] = {one: set() for one in _put_twice(puts) & arriving}
    for key, content_id in current.items():
        if content_id is not None and content_id in arriving:
            holders.setdefault(content_id, set()).add(key)
    head.watch(partial(_concerns, arriving, _has_texts(arriving)))
    for base in {view.obj_id: view for one in carried for view in one.bases}.values():
        _add_holders(ids, head, base, arriving, holders)
    return _simulate(lines, puts, current, holders)


class _Ids:
    """Content ids of elements; those that only the stored value knows are loaded."""

    def __init__(self, context: RepositoryContext, types: ContentTypes, head: Head) -> None:
        self._context = context
        self._types = types
        self._unpublished = head.unpublished

    def of(self, element: bytes | None) -> _Id | None:
        """Returns the id of one element, None where there is none."""
        if element is None:
            return None
        known = find_raw_content_id(element)
        if known is not None:
            return known
        return load_content_ids(self._context, self._types, [element], self._unpublished)[element]


def _arriving(
    lines: Sequence[Sequence[Operation]],
    puts: Sequence[Sequence[_Id | None]],
    current: Mapping[bytes, _Id | None],
) -> set[_Id]:
    """Returns the ids that come to a key which does not hold them, in any of the commits.

    `puts` are the ids that the operations put.
    """
    staged = dict(current)
    found = set()
    for line, content_ids in zip(lines, puts, strict=True):
        for op, content_id in zip(line, content_ids, strict=True):
            if content_id is not None and content_id != staged[op.key]:
                found.add(content_id)
            staged[op.key] = content_id
    return found


def _put_twice(puts: Sequence[Sequence[_Id | None]]) -> set[_Id]:
    """Returns the ids that more than one operation puts."""
    seen: set[_Id] = set()
    twice = set()
    for content_ids in puts:
        for content_id in content_ids:
            if content_id is not None:
                if content_id in seen:
                    twice.add(content_id)
                seen.add(content_id)
    return twice


def _add_holders(
    ids: _Ids,
    head: Head,
    base: CommitView,
    arriving: set[_Id],
    holders: dict[_Id, set[bytes]],
) -> None:
    """Adds the keys of the head that hold one of the ids and differ from the base."""
    with_texts = _has_texts(arriving)
    changes = find_changed(
        head.nodes,
        base.tables,
        head.view.tables,
        partial(_may_be_one_of, arriving, with_texts),
        partial(_select, arriving, with_texts),
    )
    for change in changes:
        found = ids.of(change.right)
        if found is not None and found in arriving:
            holders.setdefault(found, set()).add(change.key)


def _select(content_ids: set[_Id], with_texts: bool, leaf: Node) -> list[bytes]:
    """Returns the keys of a leaf that may hold one of the ids.

    A merge looks at every leaf that its target has changed since the base, so the elements are not
    cut apart.
    """
    values = leaf.values
    ends = range(TABLE_WIDTH, len(values) + 1, TABLE_WIDTH)
    found = [at for at, end in enumerate(ends) if values[end - UUID_BYTES : end] in content_ids]
    if with_texts:
        starts = range(0, len(values), TABLE_WIDTH)
        found += [at for at, start in enumerate(starts) if has_id_in_value(values[start:])]
    return [key_at(leaf, at) for at in found]


def _has_texts(content_ids: set[_Id]) -> bool:
    return any(isinstance(one, str) for one in content_ids)


def _may_be_one_of(content_ids: set[_Id], with_texts: bool, element: bytes) -> bool:
    """Returns whether an element may have one of the ids; the value is not loaded."""
    if has_id_in_value(element):
        return with_texts
    return raw_content_id_at(element) in content_ids


def _concerns(content_ids: set[_Id], with_texts: bool, change: Difference) -> bool:
    """Returns whether a change of the head may bring, move or take away one of the ids."""
    if change.key[:1] != _TABLES:
        return False
    sides = (change.left, change.right)
    return any(one is not None and _may_be_one_of(content_ids, with_texts, one) for one in sides)


def _simulate(
    lines: Sequence[Sequence[Operation]],
    puts: Sequence[Sequence[_Id | None]],
    current: Mapping[bytes, _Id | None],
    holders: Mapping[_Id, set[bytes]],
) -> list[SharedContent]:
    """Follows the commits one by one; an id with two keys after one of them is shared."""
    staged = dict(current)
    found: dict[bytes, SharedContent] = {}
    for line, content_ids in zip(lines, puts, strict=True):
        arrived: list[tuple[bytes, _Id]] = []
        for op, after in zip(line, content_ids, strict=True):
            before = staged[op.key]
            staged[op.key] = after
            if before is not None and before in holders:
                holders[before].discard(op.key)
            if after is not None and after in holders:
                holders[after].add(op.key)
                if after != before:
                    arrived.append((op.key, after))
        for key, content_id in arrived:
            others = holders[content_id] - {key}
            if others:
                found.setdefault(key, SharedContent(key, min(others)))
    return list(found.values())
