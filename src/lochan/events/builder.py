"""Makes events of a settled change: pure functions of what is stored, so they can be made again.

A request makes one event of its own (COMMIT, MERGE, TRANSPLANT or one of a reference), followed by
the events of the contents and files that it changed, in the order of their keys. Those are the net
changes: what a merge of several commits put and removed again has no event. A commit that put a
content as it was has no event of it either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from lochan.base.ids import ObjId
from lochan.base.keys import Key, Universe, file_path, is_record, table_elements
from lochan.base.limits.events import EVENT_CONTENTS_READ, EVENT_OPERATIONS_MAX
from lochan.catalog.contents import load_content_ids, load_contents, payload_at
from lochan.catalog.meta import meta_of
from lochan.catalog.types import ContentTypes
from lochan.codec.elements import decode_file, same_state
from lochan.codec.rows import ReferenceRow
from lochan.events.changes import MERGE_MOVES, Change, committing_type, provenance_of
from lochan.events.ids import event_id, joined
from lochan.index.difference import Difference
from lochan.kernel.changes import diff_commits, own_changes
from lochan.kernel.context import RepositoryContext
from lochan.kernel.provenance import Initiator
from lochan.kernel.settled import SettledCommits, SettledMove
from lochan.kernel.tags import Tags
from lochan.kernel.views import CommitView
from lochan.model import events
from lochan.model.contents import type_of
from lochan.model.events import Event, EventReference, OperationSummary
from lochan.model.files import FileInfo

Wants = Callable[[bytes], bool]
"""Takes a stored key of a change; returns whether its event may be wanted."""


class _Common(msgspec.Struct, frozen=True):
    """What the events of one request have in common."""

    facts: bytes
    fields: dict[str, Any]

    def of(self, type_name: str, *facts: bytes) -> dict[str, Any]:
        """Returns the common fields of an event of a type."""
        number = event_id(self.facts + joined(type_name.encode(), *facts))
        return {**self.fields, "type": type_name, "id": number}


class EventBuilder:
    """Makes the events of changes; `sent_by` names the process."""

    def __init__(self, types: ContentTypes, sent_by: str) -> None:
        self._types = types
        self.sent_by = sent_by

    def build(self, change: Change, wanted: frozenset[str], wants_key: Wants) -> Iterator[Event]:
        """Yields the events of a change that have one of the wanted types, in their order.

        Contents are read only for keys that are wanted.
        """
        settled = change.settled
        if isinstance(settled, SettledCommits):
            before = ObjId(settled.before.pointer)
            for group in settled.groups:
                yield from self._of_commits(change, before, group, wanted, wants_key)
                before = group[-1].obj_id
        elif change.types & wanted:
            yield from self._of_move(change, settled, wanted, wants_key)

    def _of_commits(
        self,
        change: Change,
        before: ObjId,
        group: Sequence[CommitView],
        wanted: frozenset[str],
        wants_key: Wants,
    ) -> Iterator[Event]:
        """Yields the events of the commits of one request."""
        type_name = committing_type(provenance_of(group[0]).kind)
        if type_name == events.COMMIT:
            for view in group:
                yield from self._of_commit(change, before, view, wanted, wants_key)
                before = view.obj_id
            return
        last = group[-1]
        common = self._common_of_commit(change, last)
        if type_name in wanted:
            yield _carried(common, type_name, before, group)
        changed = _changed(change.context, before, last)
        yield from self._contents(change.context, common, last, changed, wanted, wants_key)

    def _of_commit(
        self,
        change: Change,
        before: ObjId,
        view: CommitView,
        wanted: frozenset[str],
        wants_key: Wants,
    ) -> Iterator[Event]:
        """Yields the event of a commit, then those of its contents; both read its keys once."""
        context = change.context
        common = self._common_of_commit(change, view)
        own = _listed(context, before, view)
        if events.COMMIT in wanted:
            yield _committed(context, common, before, view, own)
        changed = _changed(context, before, view) if own is None else _net(own)
        yield from self._contents(context, common, view, changed, wanted, wants_key)

    def _of_move(
        self, change: Change, settled: SettledMove, wanted: frozenset[str], wants_key: Wants
    ) -> Iterator[Event]:
        """Yields the events of a move: one of the reference, or a merge and its contents."""
        move, context = settled.move, change.context
        row = settled.after
        facts = joined(
            *_facts_of(context, row),
            move.version.to_bytes(8, "big"),
            move.operation,
        )
        who = Initiator(move.who, move.roles)
        fields = self._fields(change, move.when_us, who, move.operation.hex())
        fields["version"] = move.version
        common = _Common(facts, fields)
        if move.kind not in MERGE_MOVES:
            yield _of_reference(context, common, settled)
            return
        if events.MERGE in wanted:
            yield events.MergeMade(
                **common.of(events.MERGE),
                source=move.source,
                source_hash=move.new.hex(),
                hash_before=move.old.hex(),
                hash_after=move.new.hex(),
                common_ancestor=move.base.hex(),
                cause=move.kind,
            )
        after = context.views.load(ObjId(move.new))
        changed = _changed(context, ObjId(move.old), after)
        yield from self._contents(context, common, after, changed, wanted, wants_key)

    def _common_of_commit(self, change: Change, view: CommitView) -> _Common:
        made = provenance_of(view)
        when_us = 0 if view.body is None else view.body.created_us
        fields = self._fields(change, when_us, made.who, made.operation)
        return _Common(joined(*_facts_of(change.context, change.row), view.obj_id), fields)

    def _fields(
        self, change: Change, when_us: int, who: Initiator, operation: str
    ) -> dict[str, Any]:
        row = change.row
        return {
            "time_us": when_us,
            "sent_by": self.sent_by,
            "initiator": who.name,
            "roles": who.roles,
            "repository": change.context.description.name,
            "reference": reference_of(row),
            "version": 0,
            "operation": operation,
        }

    def _contents(
        self,
        context: RepositoryContext,
        common: _Common,
        after: CommitView,
        changed: Iterator[Difference],
        wanted: frozenset[str],
        wants_key: Wants,
    ) -> Iterator[Event]:
        """Yields the events of the keys that a commit has changed."""
        if not wanted & (events.CONTENT_TYPES | events.FILE_TYPES):
            return
        at = {
            "hash": after.obj_id.hex(),
            "commit_time_us": 0 if after.body is None else after.body.created_us,
        }
        found = (
            one
            for one in changed
            if not is_record(one.key) and content_type_name(one) in wanted and wants_key(one.key)
        )
        while batch := list(islice(found, EVENT_CONTENTS_READ)):
            yield from self._of_batch(context, common, at, batch)

    def _of_batch(
        self,
        context: RepositoryContext,
        common: _Common,
        at: dict[str, Any],
        batch: Sequence[Difference],
    ) -> Iterator[Event]:
        tables = [one for one in batch if one.key[0] == Universe.TABLES]
        stored = [one.right for one in tables if one.right is not None]
        removed = [one.left for one in tables if one.right is None and one.left is not None]
        contents = load_contents(context, self._types, stored)
        ids = load_content_ids(context, self._types, removed)
        for one in batch:
            fields = {**common.of(content_type_name(one), one.key), **at}
            if one.key[0] == Universe.FILES:
                yield _of_file(fields, one)
            elif one.right is not None:
                content = contents[one.right]
                yield events.ContentStored(
                    **fields,
                    content_type=type_of(content),
                    key=table_elements(Key(one.key)),
                    content=content,
                )
            elif one.left is not None:
                yield events.ContentRemoved(
                    **fields,
                    content_type=self._type_at(context, one.left),
                    key=table_elements(Key(one.key)),
                    content_id=ids[one.left],
                )

    def _type_at(self, context: RepositoryContext, element: bytes) -> str:
        """Returns the type of a content; its value is read only if no number stands for it."""
        name = self._types.find_name(payload_at(element))
        return name or type_of(load_contents(context, self._types, [element])[element])


def content_type_name(one: Difference) -> str:
    """Returns the type of the event of a key that differs."""
    if one.key[0] == Universe.FILES:
        return events.FILE_REMOVED if one.right is None else events.FILE_STORED
    return events.CONTENT_REMOVED if one.right is None else events.CONTENT_STORED


def reference_of(row: ReferenceRow) -> EventReference:
    """Returns a reference as events name it."""
    folder = "tags" if row.kind == "TAG" else "heads"
    return EventReference(row.name, f"/refs/{folder}/{row.name}", row.kind, row.incarnation)


def _facts_of(context: RepositoryContext, row: ReferenceRow) -> tuple[bytes, ...]:
    return context.instance, row.name.encode(), row.incarnation.to_bytes(8, "big")


def _carried(common: _Common, type_name: str, before: ObjId, group: Sequence[CommitView]) -> Event:
    """Returns the event of a merge, or of a transplant."""
    last = group[-1]
    made = provenance_of(last)
    heads = {"hash_before": before.hex(), "hash_after": last.obj_id.hex()}
    fields: dict[str, Any] = {**common.of(type_name), **heads}
    fields |= {"source": made.source, "cause": made.kind}
    if type_name == events.TRANSPLANT:
        return events.TransplantMade(**fields, commit_count=len(group))
    further = () if last.body is None else last.body.parents[1:]
    merged = further[0].hex() if further else made.source_hash
    return events.MergeMade(**fields, source_hash=merged, common_ancestor=made.base)


def _of_reference(context: RepositoryContext, common: _Common, settled: SettledMove) -> Event:
    """Returns the event of a reference that was created, deleted or pointed elsewhere."""
    move = settled.move
    tags = Tags(context)

    def peeled(pointer: bytes) -> str:
        # A branch points at a commit; what a tag points at may be an object of its own.
        if settled.after.kind != "TAG":
            return pointer.hex()
        return tags.peel(ObjId(pointer)).commit.obj_id.hex()

    if move.kind == "create":
        return events.ReferenceCreated(
            **common.of(events.REFERENCE_CREATED), hash_after=peeled(move.new)
        )
    if move.kind == "delete":
        return events.ReferenceDeleted(
            **common.of(events.REFERENCE_DELETED), hash_before=peeled(move.old)
        )
    return events.ReferenceUpdated(
        **common.of(events.REFERENCE_UPDATED),
        hash_before=peeled(move.old),
        hash_after=peeled(move.new),
        cause=move.kind,
    )


def _committed(
    context: RepositoryContext,
    common: _Common,
    before: ObjId,
    view: CommitView,
    own: Sequence[Difference] | None,
) -> Event:
    """Returns the event of a commit; `own` is what it did, if that was read already."""
    listed: list[OperationSummary] = []
    left_out = 0
    for one in _operations(context, view) if own is None else own:
        if is_record(one.key):
            continue
        if len(listed) < EVENT_OPERATIONS_MAX:
            listed.append(_summary(one))
        else:
            left_out += 1
    return events.CommitMade(
        **common.of(events.COMMIT),
        hash_before=before.hex(),
        hash_after=view.obj_id.hex(),
        meta=meta_of(view),
        operations=tuple(listed),
        operations_left_out=left_out,
    )


def _operations(context: RepositoryContext, view: CommitView) -> Iterable[Difference]:
    """Returns what a commit did; one with too many keys to list them is read as a difference."""
    if view.body is not None and view.body.own is not None:
        return own_changes(context.views, context.nodes, view)
    return diff_commits(context.nodes, context.views.load(view.parent), view)


def _listed(context: RepositoryContext, before: ObjId, view: CommitView) -> list[Difference] | None:
    """Returns what a commit did to each of the keys that it lists; None if it does not list them.

    Where a request began at its parent, no other keys differ: few look-ups instead of a comparison
    of both indexes.
    """
    if view.body is None or view.body.own is None or view.parent != before:
        return None
    return own_changes(context.views, context.nodes, view)


def _changed(context: RepositoryContext, before: ObjId, after: CommitView) -> Iterator[Difference]:
    """Returns the keys that differ between two commits."""
    own = _listed(context, before, after)
    if own is not None:
        return _net(own)
    return diff_commits(context.nodes, context.views.load(before), after)


def _net(own: Iterable[Difference]) -> Iterator[Difference]:
    """Leaves out the keys that a commit left as they were."""
    return (one for one in own if not same_state(one.key, one.left, one.right))


def _summary(one: Difference) -> OperationSummary:
    kind = "DELETE" if one.right is None else "PUT"
    if one.key[0] == Universe.FILES:
        return OperationSummary(kind, path=file_path(Key(one.key)))
    return OperationSummary(kind, key=table_elements(Key(one.key)))


def _of_file(fields: dict[str, Any], one: Difference) -> Event:
    path = file_path(Key(one.key))
    if one.right is None:
        return events.FileRemoved(**fields, path=path)
    entry = decode_file(one.right)
    info = FileInfo(
        path=path,
        size=entry.size,
        etag=entry.etag,
        modified_us=entry.modified_us,
        sha256=entry.sha256.hex(),
        content_type=entry.content_type,
        metadata=entry.metadata,
        address=entry.address,
    )
    return events.FileStored(**fields, path=path, file=info)
