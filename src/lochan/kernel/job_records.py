"""Records of jobs in the merge family: they follow the content that they are of.

A record states that a job has written a content, so it holds where the content is one that the job
has written. Carried key by key it would not stay true: a merge that leaves a table alone, or takes
the whole of it by force, must leave or take its records as well. So where a change of a table is
carried, the content gets the records that it has in the commit which the change leads to. A
content whose id is no UUID cannot be recognised by its element; its records are carried key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from lochan.base.keys import (
    Universe,
    has_uuid,
    is_record,
    jobs_of_owner,
    owner_name,
    owner_of,
    prefix_end,
)
from lochan.index.difference import Difference
from lochan.index.layers import diff
from lochan.kernel.build import Head
from lochan.kernel.plan import Operation
from lochan.kernel.views import CommitView

# Where the content id begins in a table's element.
_CONTENT_ID: Final = 34


class RecordsOnHead:
    """The records of a head while changes are carried onto it, commit by commit."""

    def __init__(self, head: Head) -> None:
        self._head = head
        # The commit whose records a content has by now, where that is not the head.
        self._now: dict[bytes, CommitView] = {}
        # Contents whose records on the head are compared.
        self._followed: set[bytes] = set()
        head.watch(lambda one: is_record(one.key) and owner_of(one.key) in self._followed)

    def follow(
        self,
        changes: Sequence[Difference],
        state: CommitView,
        states: Mapping[bytes, CommitView],
        carried: Sequence[Operation],
    ) -> list[Operation]:
        """Returns what is to be done to records, after what is done to tables.

        The changes lead to `state`, those of some keys to `states`. A content that was resolved
        gets the records of both sides.
        """
        led = {one.key: one for one in changes if one.key[0] == Universe.TABLES}
        # None where two commits have the same records; nearly all changes are between the same two.
        moved: dict[tuple[int, int], _Move | None] = {}
        for op in carried:
            if op.element is None or op.key not in led:
                continue
            owner = owner_name(op.element[_CONTENT_ID:])
            self._followed.add(owner)
            before, after = self._now.get(owner, self._head.view), states.get(op.key, state)
            pair = (id(before), id(after))
            if pair not in moved:
                moved[pair] = None if before.files == after.files else _Move(before, after)
            move = moved[pair]
            if move is not None:
                move.owners[owner] = op.element == led[op.key].right
                self._now[owner] = after
        moves = [move for move in moved.values() if move is not None]
        operations = [op for move in moves for op in self._moved(move)]
        return [*operations, *self._unfollowed(changes)]

    def _moved(self, move: _Move) -> Iterable[Operation]:
        """Yields the differences between the records of some contents in two commits."""
        owners = move.owners
        start, last = jobs_of_owner(min(owners)), jobs_of_owner(max(owners))
        nodes = self._head.nodes
        for change in diff(nodes, move.before.files, move.after.files, start, prefix_end(last)):
            is_whole = owners.get(owner_of(change.key))
            if is_whole or (is_whole is not None and change.right is not None):
                yield Operation(change.key, change.right)

    def _unfollowed(self, changes: Sequence[Difference]) -> Iterable[Operation]:
        """Yields the records of contents that cannot be recognised by their elements."""
        records = [one for one in changes if is_record(one.key) and not has_uuid(one.key)]
        current = self._head.find([one.key for one in records]) if records else {}
        for change in records:
            if change.left != change.right and current[change.key] == change.left:
                yield Operation(change.key, change.right)


class _Move(msgspec.Struct, frozen=True):
    """Contents that go from the state of one commit to that of another; False if only in part."""

    before: CommitView
    after: CommitView
    owners: dict[bytes, bool] = {}
