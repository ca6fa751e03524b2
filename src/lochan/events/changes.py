"""A change that waits for its subscribers: what the kernel has settled, and where."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec

from lochan.codec.rows import ReferenceRow
from lochan.kernel.context import RepositoryContext
from lochan.kernel.provenance import Initiator, Provenance, read_provenance
from lochan.kernel.settled import SettledChange, SettledCommits, SettledMove
from lochan.kernel.views import CommitView
from lochan.model import events

MERGE_KINDS: Final = frozenset({"merge"})
TRANSPLANT_KINDS: Final = frozenset({"transplant", "cherry-pick"})
MERGE_MOVES: Final = frozenset({"fast-forward", "force"})

_OF_CONTENT: Final = events.CONTENT_TYPES | events.FILE_TYPES
_OF_COMMITS: Final = {
    name: _OF_CONTENT | {name} for name in (events.COMMIT, events.MERGE, events.TRANSPLANT)
}


class Change(msgspec.Struct, frozen=True, dict=True):
    """A settled change; `epoch` is the number of the write that must be durable before.

    What filters look at is found out once for all subscriptions.
    """

    context: RepositoryContext
    settled: SettledChange
    epoch: int

    @property
    def row(self) -> ReferenceRow:
        """The row after the change."""
        return self.settled.after

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that its events may have; reads nothing."""
        return _types_of(self)

    @cached_property
    def size(self) -> int:
        """How many commits it has, which are in memory as long as it waits; 1 for a move."""
        settled = self.settled
        if isinstance(settled, SettledMove):
            return 1
        return sum([len(group) for group in settled.groups])

    @property
    def place(self) -> tuple[bytes, str]:
        """Repository and reference: changes of one place are delivered in their order."""
        return self.context.instance, self.row.name

    @property
    def position(self) -> tuple[int, int]:
        """The place of the change in the history of its reference."""
        return self.row.incarnation, self.row.version


def provenance_of(view: CommitView) -> Provenance:
    """Returns how a commit was made."""
    return read_provenance(() if view.body is None else view.body.hidden)


def _types_of(change: Change) -> frozenset[str]:
    settled = change.settled
    if isinstance(settled, SettledCommits):
        names = {committing_type(provenance_of(group[0]).kind) for group in settled.groups}
        if len(names) == 1:
            return _OF_COMMITS[names.pop()]
        return _OF_CONTENT | names
    move = settled.move
    if move.kind == "create":
        return frozenset({events.REFERENCE_CREATED})
    if move.kind == "delete":
        return frozenset({events.REFERENCE_DELETED})
    if move.old == move.new:
        return frozenset()
    if move.kind in MERGE_MOVES:
        return _OF_CONTENT | {events.MERGE}
    return frozenset({events.REFERENCE_UPDATED})


def committing_type(kind: str) -> str:
    """Returns the type of the event of commits of one kind."""
    if kind in MERGE_KINDS:
        return events.MERGE
    return events.TRANSPLANT if kind in TRANSPLANT_KINDS else events.COMMIT


def initiators_of(change: Change) -> list[Initiator]:
    """Returns who caused a change; commits of several requests may be published as one."""
    settled = change.settled
    if isinstance(settled, SettledCommits):
        return [provenance_of(group[0]).who for group in settled.groups]
    return [Initiator(settled.move.who, settled.move.roles)]


def own_keys_of(change: Change) -> list[bytes] | None:
    """Returns the keys that a change touched as far as memory has them; None if it does not."""
    settled = change.settled
    if not isinstance(settled, SettledCommits):
        return None
    keys: list[bytes] = []
    for group in settled.groups:
        for view in group:
            own = None if view.body is None else view.body.own
            if own is None:
                return None
            keys += own
    return keys
