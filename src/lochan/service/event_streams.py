"""Use cases of followers: where a stream begins, and what of each event its caller may see.

A stream is a reading of history. An event needs the right to read the log of its reference; one of
a key or a file needs the right to read that key, and to read its content if it shows one. Of a
commit those operations are listed whose keys may be read, of a merge the source if it may be
viewed.

Rights are not remembered here: each piece of a stream is judged by the call that the face has at
that moment.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import Invalid
from lochan.base.ids import ObjId
from lochan.base.keys import file_key, table_key
from lochan.base.names import RefName
from lochan.codec.cursors import ReplayPosition
from lochan.codec.rows import ReferenceRow
from lochan.events.filters import key_of
from lochan.events.replay import after_incarnation, is_one_request
from lochan.events.stream_tokens import StreamScope
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ancestor_at, last_where
from lochan.kernel.moves import moves_since
from lochan.kernel.tags import TAG
from lochan.model import events
from lochan.model.events import Event, OperationSummary
from lochan.service.policy import Access
from lochan.service.readable_keys import covers
from lochan.service.resolve import DEFAULT_ALIAS, Resolver

_SOURCE: Final = ("source", "source_hash", "common_ancestor")
_SHOWS_CONTENT: Final = frozenset({events.CONTENT_STORED, events.FILE_STORED})


class EventRights(msgspec.Struct, frozen=True):
    """What a caller may see of the events of one reference."""

    reads_log: bool
    names: KeyRight | None
    contents: KeyRight | None
    views_all: bool
    """Whether it may view every reference, whatever its name is."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing of any event is left out."""
        is_limited = self.names is not None or self.contents is not None
        return self.reads_log and self.views_all and not is_limited


class ShownEvent(msgspec.Struct, frozen=True):
    """An event as a caller sees it, and the fields that are left out of it."""

    event: Event
    left_out: tuple[str, ...] = ()


class EventStreams:
    """Streams of one repository."""

    def __init__(self, context: RepositoryContext, resolver: Resolver, access: Access) -> None:
        self._context = context
        self._resolver = resolver
        self._access = access

    def scope(self, call: Call, text: str, *, resumes: bool) -> StreamScope:
        """Returns the references of a stream, decided on: the log of a single one may be read.

        A reference whose stream is resumed need not exist any more.
        """
        if text == DEFAULT_ALIAS:
            text = self._context.description.default_branch
        scope = StreamScope(text)
        if scope.is_pattern:
            self._access.check_seen(call)
        elif resumes:
            self._access.decide(call, Action.READ_LOG, scope.name)
        else:
            self._resolver.read_row(call, Action.READ_LOG, scope.name)
        return scope

    def reads_log(self, call: Call, name: RefName) -> bool:
        """Returns whether the caller may read the log of a reference."""
        return self._access.allows(call, Action.READ_LOG, name)

    def reads_every_log(self, call: Call) -> bool:
        """Returns whether the caller may read the logs of all references."""
        return self._access.allows(call, Action.READ_LOG)

    def rights(self, call: Call, name: RefName) -> EventRights:
        """Returns what the caller may see of the events of a reference."""
        access = self._access
        return EventRights(
            access.allows(call, Action.READ_LOG, name),
            access.key_right(call, Action.READ_ENTRIES, name),
            access.key_right(call, Action.READ_CONTENT, name),
            access.allows(call, Action.VIEW_REFERENCE),
        )

    def shown(self, call: Call, rights: EventRights, event: Event) -> ShownEvent | None:
        """Returns an event as the caller may see it; None if it may not."""
        if not rights.reads_log:
            return None
        key = key_of(event)
        if key is not None:
            right = rights.contents if event.type in _SHOWS_CONTENT else rights.names
            return ShownEvent(event) if covers(right, key) else None
        if isinstance(event, events.CommitMade) and rights.names is not None:
            return _with_readable_operations(event, rights.names)
        if isinstance(event, events.MergeMade | events.TransplantMade) and not rights.views_all:
            # A source is named by itself, or with a commit behind its name.
            source = event.source.partition("@")[0]
            if not source or not self._access.allows(call, Action.VIEW_REFERENCE, source):
                return ShownEvent(event, tuple(one for one in _SOURCE if hasattr(event, one)))
        return ShownEvent(event)

    def position_at(self, call: Call, name: RefName, time_us: int) -> ReplayPosition:
        """Returns the position behind what was done up to a time, in the present incarnation.

        It depends on the clocks of the servers that made the changes.
        """
        row = self._resolver.read_row(call, Action.READ_LOG, name)
        return position_at(self._context, row, time_us)


def position_at(context: RepositoryContext, row: ReferenceRow, time_us: int) -> ReplayPosition:
    """Returns the position of a reference behind what was done up to a time."""
    found = moves_since(context.moves, row.name, row.incarnation, 0, row)
    moves = sorted({move.version: move for move in found}.values(), key=lambda one: one.version)
    done = list(takewhile(lambda move: move.when_us <= time_us, moves))
    if not done:
        return after_incarnation(row.incarnation - 1)
    last = done[-1]
    top = moves[len(done)].old if len(done) < len(moves) else row.pointer
    if row.kind == TAG or top == last.new:
        return ReplayPosition(row.incarnation, last.version, last.new)
    views = context.views
    bottom, head = views.load(ObjId(last.new)), views.load(ObjId(top))
    sequence = last_where(
        views,
        head,
        bottom.sequence,
        lambda view: view.body is None or view.body.created_us <= time_us,
    )
    at = views.load(ancestor_at(views, head, sequence))
    while bottom.sequence < at.sequence < head.sequence:
        if not is_one_request(at, views.load(ancestor_at(views, head, at.sequence + 1))):
            break
        at = views.load(at.parent)
    return ReplayPosition(row.incarnation, last.version, at.obj_id)


def _with_readable_operations(event: events.CommitMade, right: KeyRight) -> ShownEvent:
    """Leaves out the operations on keys that the caller may not read, and how many are not listed.

    That number counts hidden ones too.
    """
    listed = tuple([one for one in event.operations if right.covers(_key_of(one))])
    left_out = ("operations_left_out",) if event.operations_left_out else ()
    return ShownEvent(msgspec.structs.replace(event, operations=listed), left_out)


def _key_of(one: OperationSummary) -> bytes:
    if not one.key and not one.path:
        raise Invalid("an operation has a key or a path")
    return bytes(table_key(one.key) if one.key else file_key(one.path))
