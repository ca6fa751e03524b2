"""Rights over the keys that merges and moves of whole branches change.

Which keys those are is known only on the head that is planned on, so the kernel asks there
(`CarryRights`, `MoveRights`). If one of the rights is missing, the whole is refused by an error
that names no key and no number, before any conflict is reported. For a caller that may do
everything to all keys nothing is computed.

To point a reference at a commit shows every key of that commit, and its log, under the name of the
reference. So the caller must be allowed to read all of the source, or the same in both. Messages
of commits are copied in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from lochan.access.policy import Action, Call, KeyRight
from lochan.base.errors import Denied
from lochan.base.ids import ObjId
from lochan.base.keys import Universe, has_uuid, is_record, owner_name, owner_of
from lochan.catalog.contents import raw_content_id_at
from lochan.codec.rows import ReferenceRow
from lochan.index.difference import Difference
from lochan.index.source import NodeSource
from lochan.kernel.changes import diff_commits
from lochan.kernel.context import RepositoryContext
from lochan.kernel.merge import ALL_KEYS, Carried, CarryRights
from lochan.kernel.merge_choices import Choices
from lochan.kernel.references import MovedReference
from lochan.kernel.tags import Tags
from lochan.kernel.views import CommitView
from lochan.service.policy import Access, WriteTarget

_READS: Final = (Action.READ_CONTENT, Action.READ_ENTRIES, Action.READ_LOG)


class CarriedKeys(msgspec.Struct, frozen=True):
    """The rights of a caller over the keys of a merge, a transplant, a pick or a revert.

    `reads` is for the source, the others are for the target; None is for all keys.
    """

    target: WriteTarget
    source: str | None
    reads: KeyRight | None
    shows: KeyRight | None
    writes: KeyRight | None
    deletes: KeyRight | None

    def check_carried(self, carried: Sequence[Carried], choices: Choices) -> None:
        """Raises Denied unless the caller may read all keys that the source changed, or it named.

        A caller that names what the target holds must be allowed to read that, too.
        """
        keys = (change.key for one in carried for change in one.changes)
        self._check_read(self.source, self.reads, keys)
        self._check_read(self.source, self.reads, choices.keys)
        seen = (key for key, choice in choices.keys.items() if choice.has_expected_target)
        self._check_read(self.target.name, self.shows, seen)

    def check_written(self, written: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Raises Denied unless the caller may write all of it in the target."""
        if self.writes is None and self.deletes is None:
            return
        for key, element in written:
            if is_record(key):
                if has_uuid(key):
                    continue
                # Which content it is of is not known; all others follow a key that is checked.
                raise self._refused(Action.WRITE_CONTENT, self.target.name, ())
            right = self.deletes if element is None else self.writes
            if right is not None and not right.covers(key):
                action = Action.DELETE_CONTENT if element is None else Action.WRITE_CONTENT
                raise self._refused(action, self.target.name, (key,))

    def _check_read(
        self, reference: str | None, right: KeyRight | None, keys: Iterable[bytes]
    ) -> None:
        if right is None:
            return
        for key in keys:
            if not is_record(key) and not right.covers(key):
                raise self._refused(Action.READ_CONTENT, reference, (key,))

    def _refused(self, action: Action, reference: str | None, keys: Sequence[bytes]) -> Denied:
        return _refused(self.target, action, reference, keys)


def rights_to_carry(target: WriteTarget, source: str | None) -> CarryRights:
    """Returns what the caller may do to the keys that are carried from a source to a target."""
    right, call, name = target.access.key_right, target.call, target.name
    rights = CarriedKeys(
        target,
        source,
        right(call, Action.READ_CONTENT, source),
        right(call, Action.READ_CONTENT, name),
        right(call, Action.WRITE_CONTENT, name),
        right(call, Action.DELETE_CONTENT, name),
    )
    parts = (rights.reads, rights.shows, rights.writes, rights.deletes)
    return ALL_KEYS if all(part is None for part in parts) else rights


class MovedKeys(msgspec.Struct, frozen=True):
    """The rights of a caller that moves a whole reference to a commit of a source."""

    target: WriteTarget
    source: str | None

    def check_row(self, row: ReferenceRow) -> None:
        """Raises Denied unless the caller may move this row."""
        self.target.check_row(row)

    def check_source(self) -> None:
        """Raises Denied unless the caller may see under the target what it sees in the source."""
        check_whole(self.target.access, self.target.call, self.source, self.target.name)

    def check_change(self, nodes: NodeSource, before: CommitView, after: CommitView) -> None:
        """Raises Denied unless the caller may change every key that differs."""
        right, call, name = self.target.access.key_right, self.target.call, self.target.name
        writes = right(call, Action.WRITE_CONTENT, name)
        deletes = right(call, Action.DELETE_CONTENT, name)
        if writes is None and deletes is None:
            return
        recorded: set[bytes] = set()
        for change in diff_commits(nodes, before, after):
            key, is_removal = change.key, change.right is None
            if is_record(key):
                recorded.add(owner_of(key))
                continue
            allowed = deletes if is_removal else writes
            if allowed is not None and not allowed.covers(key):
                action = Action.DELETE_CONTENT if is_removal else Action.WRITE_CONTENT
                raise _refused(self.target, action, name, (key,))
            recorded.difference_update(_owners(change))
        if recorded:
            # Records of contents that stay as they are, in keys that are not known.
            raise _refused(self.target, Action.WRITE_CONTENT, name, ())

    def check_made(self, context: RepositoryContext, made: MovedReference) -> None:
        """Raises Denied unless the caller may make a move that it has made before."""
        move, access, call = made.move, self.target.access, self.target.call
        pointer = ObjId(made.row.pointer)
        access.decide(call, Action.READ_CONTENT, self.source, None, pointer)
        self.check_source()
        if move is not None and move.old:
            tags = Tags(context)
            before, after = (tags.peel(ObjId(one)).commit for one in (move.old, move.new))
            self.check_change(context.nodes, before, after)

    @property
    def is_full(self) -> bool:
        """Whether the caller may change all keys of the target."""
        right, call, name = self.target.access.key_right, self.target.call, self.target.name
        actions = (Action.WRITE_CONTENT, Action.DELETE_CONTENT)
        return all(right(call, action, name) is None for action in actions)


def check_whole(access: Access, call: Call, source: str | None, target: str) -> None:
    """Raises Denied unless the caller may see under the target what it sees in the source."""
    for action in _READS:
        right = access.key_right(call, action, source)
        if right is not None and right != access.key_right(call, action, target):
            raise Denied(
                "a reference is pointed at a commit as a whole, and you may not read all keys of "
                "that commit, or not its log; merge the keys that you may read"
            )


def check_messages(access: Access, call: Call, source: str | None, target: str) -> None:
    """Raises Denied if the log of a target would show messages that the caller may not read."""
    right = access.key_right(call, Action.READ_LOG, source)
    if right is not None and right != access.key_right(call, Action.READ_LOG, target):
        raise Denied(
            "the commits are made again with their messages, and you may not read the log that "
            "they are in; merge them as one commit"
        )


def _owners(change: Difference) -> list[bytes]:
    """Returns the contents of both sides of a changed table, as records name them."""
    if change.key[0] != Universe.TABLES:
        return []
    elements = [one for one in (change.left, change.right) if one is not None]
    return [owner_name(raw_content_id_at(element)) for element in elements]


def _refused(
    target: WriteTarget, action: Action, reference: str | None, keys: Sequence[bytes]
) -> Denied:
    """Returns the refusal, which names nothing; the policy has the keys for its audit log."""
    target.access.refuse_keys(target.call, action, reference, keys)
    error = Denied(
        "nothing was written: among the changes are keys that you may not read, or may not write "
        "in the target"
    )
    error.recorded = True
    return error
