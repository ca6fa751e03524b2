"""The merge family: merge, transplant, cherry-pick and revert, squashed or replayed.

All of them carry *changes* (key, before, after) onto a head. A change fits if the head holds what
was there before; if it already holds what comes after, nothing is left to do for that key; else the
key is in conflict, and what happens then is the caller's choice, key by key. Every conflict is
told, with base, source and target; one that stands leaves nothing written.

Members of this room are planned inside the lane like any commit, so they meet the true head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe, ordered
from lochan.codec.commits import Headers
from lochan.index.difference import Difference
from lochan.index.layers import find_many
from lochan.kernel.build import Head
from lochan.kernel.changes import diff_commits, line_above, own_changes
from lochan.kernel.history import has_merged, merge_base, shared_sequence
from lochan.kernel.parts import Parts
from lochan.kernel.plan import ANY, CommitPlan, Operation
from lochan.kernel.views import CommitView


class Behaviour(Enum):
    """What to do with a key that the source changed."""

    NORMAL = "NORMAL"
    FORCE = "FORCE"
    DROP = "DROP"
    TAKE_TARGET_ON_CONFLICT = "TAKE_TARGET_ON_CONFLICT"


class KeyChoice(msgspec.Struct, frozen=True):
    """The caller's word on one key.

    `expected_target` replaces what the target is expected to hold; `resolved` replaces what the
    source brings, and needs the former: who resolves a conflict must have seen both sides.
    """

    behaviour: Behaviour = Behaviour.NORMAL
    expected_target: bytes | None = None
    has_expected_target: bool = False
    resolved: bytes | None = None
    has_resolved: bool = False


class MergeConflict(msgspec.Struct, frozen=True, gc=False):
    """A key that both sides changed."""

    key: bytes
    base: bytes | None
    source: bytes | None
    target: bytes | None


class Choices(msgspec.Struct, frozen=True):
    """What is wanted for the keys, and for all that are not named."""

    default: Behaviour = Behaviour.NORMAL
    keys: Mapping[bytes, KeyChoice] = msgspec.field(default_factory=dict)

    def of(self, key: bytes) -> KeyChoice:
        """Returns the choice for a key."""
        return self.keys.get(key) or KeyChoice(self.default)


class Carried(msgspec.Struct, frozen=True):
    """A commit's worth of changes to be carried onto a head."""

    changes: Sequence[Difference]
    message: str
    headers: Headers = ()
    hidden: Headers = ()
    merged: tuple[ObjId, ...] = ()


class CarryMember:
    """Carries prepared changes onto whatever the head is: transplant, cherry-pick, revert."""

    def __init__(
        self, carried: Sequence[Carried], choices: Choices, incarnation: int | None
    ) -> None:
        check_choices(choices)
        self._carried = carried
        self._choices = choices
        self.incarnation = incarnation
        self.base: CommitView | None = None
        self.touched = tuple(ordered(change.key for one in carried for change in one.changes))

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans one commit for each that leaves something to do; tells all conflicts at once."""
        return carry(head, self._carried, self._choices)


class MergeMember:
    """Merges a source commit into whatever the head is."""

    def __init__(
        self,
        parts: Parts,
        source: CommitView,
        message: str,
        choices: Choices,
        *,
        replay: bool = False,
        headers: Headers = (),
        hidden: Headers = (),
        incarnation: int | None = None,
    ) -> None:
        check_choices(choices)
        self._parts = parts
        self._source = source
        self._message = message
        self._choices = choices
        self._replay = replay
        self._headers = headers
        self._hidden = hidden
        self.incarnation = incarnation
        self.base: CommitView | None = None
        self.touched: tuple[bytes, ...] = ()

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the merge; nothing if the head has everything of the source already.

        Leaves in `base` and `touched` from where the sides parted and which keys the source has
        changed since.
        """
        parts = self._parts
        # The base of an unpublished head is that of the published one below it.
        base = merge_base(parts.views, head.builder.base, self._source) or parts.views.load(
            EMPTY_ID
        )
        self.base, self.touched = base, ()
        if base.obj_id == self._source.obj_id or self._was_just_merged(head):
            return []
        if self._replay:
            carried = self._replayed(head.builder.base)
        else:
            changes = list(diff_commits(parts.nodes, base, self._source))
            merged = (self._source.obj_id,)
            carried = [Carried(changes, self._message, self._headers, self._hidden, merged)]
        self.touched = tuple(ordered(change.key for one in carried for change in one.changes))
        unknown = set(self._choices.keys).difference(self.touched)
        if unknown:
            raise Invalid(f"{len(unknown)} keys have a merge behaviour but were not changed")
        return carry(head, carried, self._choices)

    def _was_just_merged(self, head: Head) -> bool:
        """Tells whether a commit of the chain, not published yet, has brought the source."""
        views = self._parts.views
        for view in head.line():
            if view.body is None or view.sequence <= head.builder.base.sequence:
                return False
            for merged in view.body.parents[1:]:
                if has_merged(views, views.load(ObjId(merged)), self._source):
                    return True
        return False

    def _replayed(self, target: CommitView) -> list[Carried]:
        parts = self._parts
        # Not the line after the merge base: after a merge of the target that is not on the line.
        shared = shared_sequence(parts.views, self._source, target)
        line = line_above(parts.views, shared, self._source)
        carried = [replayed(parts, commit, self._hidden, target) for commit in line]
        # The last one made says that the source is merged; so it is found to be next time.
        merged = (self._source.obj_id,)
        return [*carried[:-1], msgspec.structs.replace(carried[-1], merged=merged)]


def replayed(
    parts: Parts, commit: CommitView, hidden: Headers = (), target: CommitView | None = None
) -> Carried:
    """Prepares one commit to be made again elsewhere, with its own message and headers.

    What a merge took from commits that the target has is the target's own and is not carried
    back: the target may have changed it since.
    """
    body = commit.body
    if body is None:
        raise Invalid("the empty commit cannot be carried anywhere")
    changes = own_changes(parts.views, parts.nodes, commit)
    for merged in parts.views.load_many([ObjId(raw) for raw in body.parents[1:]]):
        if target is not None and has_merged(parts.views, target, merged):
            changes = _not_taken_from(parts, merged, changes)
    return Carried(changes, body.message, body.headers, hidden)


def _not_taken_from(
    parts: Parts, merged: CommitView, changes: Sequence[Difference]
) -> list[Difference]:
    taken: dict[bytes, bytes | None] = {}
    for universe in Universe:
        keys = sorted(change.key for change in changes if change.key[0] == universe)
        taken.update(zip(keys, find_many(parts.nodes, merged.index(universe), keys), strict=True))
    return [change for change in changes if taken[change.key] != change.right]


def squashed(
    parts: Parts, line: Sequence[CommitView], message: str, headers: Headers, hidden: Headers
) -> Carried:
    """Prepares several commits to be made as one; the message lists them."""
    if not line:
        raise Invalid("there is nothing to carry")
    first = parts.views.load(line[0].parent)
    changes = list(diff_commits(parts.nodes, first, line[-1]))
    listed = [f"{view.obj_id.hex()} {_first_line(view)}" for view in line]
    return Carried(changes, "\n".join([message, "", *listed]), headers, hidden)


def reverted(parts: Parts, commit: CommitView, message: str, hidden: Headers = ()) -> Carried:
    """Prepares the undoing of one commit."""
    changes = own_changes(parts.views, parts.nodes, commit)
    undone = [Difference(change.key, change.right, change.left) for change in changes]
    return Carried(undone, message, hidden=hidden)


def carry(head: Head, carried: Sequence[Carried], choices: Choices) -> list[CommitPlan]:
    """Plans the commits that carry changes onto a head, one after the other."""
    keys = ordered(change.key for one in carried for change in one.changes)
    current = head.find(keys)
    conflicts: list[MergeConflict] = []
    plans = []
    for one in carried:
        operations = []
        for change in one.changes:
            if change.left == change.right:
                continue
            wanted = _carry_one(change, choices.of(change.key), current, conflicts)
            if wanted is not None:
                operations.append(wanted)
                current[change.key] = wanted.element
        if operations:
            plans.append(CommitPlan(operations, one.message, one.headers, one.hidden))
    if conflicts:
        message = f"{len(conflicts)} keys were changed on both sides; resolve them and merge again"
        raise KeysConflict(message, tuple(conflicts))
    merged = tuple(parent for one in carried for parent in one.merged)
    if plans and merged:
        plans[-1] = msgspec.structs.replace(plans[-1], merged=merged)
    return plans


def check_choices(choices: Choices) -> None:
    """Refuses resolutions by someone who has not said what is to be replaced."""
    for choice in choices.keys.values():
        if choice.has_resolved and not choice.has_expected_target:
            raise Invalid("resolved content needs the expected target content")
        if choice.has_resolved and choice.behaviour is not Behaviour.NORMAL:
            raise Invalid("resolved content goes with the behaviour NORMAL only")


def _carry_one(
    change: Difference,
    choice: KeyChoice,
    current: dict[bytes, bytes | None],
    conflicts: list[MergeConflict],
) -> Operation | None:
    target = current[change.key]
    element = choice.resolved if choice.has_resolved else change.right
    if choice.behaviour is Behaviour.DROP:
        return None
    expected = choice.expected_target if choice.has_expected_target else change.left
    if target == expected:
        if target == element:
            return None
        return Operation(change.key, element, target)
    if choice.has_expected_target:
        conflicts.append(MergeConflict(change.key, change.left, change.right, target))
        return None
    if target == element or choice.behaviour is Behaviour.TAKE_TARGET_ON_CONFLICT:
        return None
    if choice.behaviour is Behaviour.FORCE:
        return None if element is None and target is None else Operation(change.key, element, ANY)
    conflicts.append(MergeConflict(change.key, change.left, change.right, target))
    return None


def _first_line(view: CommitView) -> str:
    return "" if view.body is None else view.body.message.partition("\n")[0][:100]
