"""The merge family: merge, transplant, cherry-pick and revert, squashed or replayed.

All of them carry *changes* (key, before, after) onto a head. A change fits if the head holds what
was there before; if it already holds what comes after, nothing is left to do for that key; else the
key is in conflict, and what happens then is the caller's choice, key by key. Conflicts are reported
together, each key once, with base, source and target; if one remains, nothing is written.

Members of this family are planned like any commit, in the lane or before (`preparation.py`).
Whatever they read about history they read from the head that they are planned on, which may be a
commit that the same chain is about to publish.

Several changes of one key in one request (a replay, or a squashed pick) follow each other:

* the expected target of a choice is what the head holds before the first of them;
* a key that was resolved, or for which the target was taken, is left alone by the later ones;
* squashed, changes that follow each other (a to b, b to c) are one change (a to c). Others (a to b,
  c to d) stay apart, so the second is in conflict, as it would be in a replay.

Records of jobs are never in conflict: they follow the content that they are of (`records.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from lochan.base.errors import Invalid, KeysConflict, ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe, is_record, ordered
from lochan.codec.commits import Headers
from lochan.codec.elements import same_state
from lochan.index.difference import Difference
from lochan.index.layers import find_many
from lochan.kernel.build import Head
from lochan.kernel.changes import diff_commits, line_above, line_between, own_changes
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import has_merged, merge_base, shared_sequence
from lochan.kernel.job_records import RecordsOnHead
from lochan.kernel.merge_choices import Behaviour, Choices, MergeConflict, check_choices
from lochan.kernel.messages import listing, title_of
from lochan.kernel.plan import ANY, CommitPlan, Operation
from lochan.kernel.staged_conflicts import check_planned
from lochan.kernel.views import CommitView
from lochan.model.requests import EmptyMerge

Rewrite = Callable[[Headers], Headers]
"""Changes the headers of a commit that is made again."""


def kept(headers: Headers) -> Headers:
    """Returns the headers as they are."""
    return headers


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """A commit's worth of changes to be carried onto a head.

    `bases` are the commits that the changes start from: what they hold is `left` of the changes.
    `states` are the commits that the changes of keys lead to, if that is not `state` for all.
    """

    changes: Sequence[Difference]
    message: str
    headers: Headers = ()
    hidden: Headers = ()
    merged: tuple[ObjId, ...] = ()
    bases: tuple[CommitView, ...] = ()
    state: CommitView
    states: Mapping[bytes, CommitView] = {}


class CarryRights(Protocol):
    """What a caller may do to the keys that are carried; checked on each head."""

    def check_carried(self, carried: Sequence[Carried], choices: Choices) -> None:
        """Raises Denied unless the caller may see every change and every choice.

        Called before anything else is reported about a key.
        """
        ...

    def check_written(self, written: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Raises Denied unless the caller may write all of it; None removes a key.

        It includes what keys in conflict would hold. Called before a conflict is reported.
        """
        ...


class AllKeys:
    """Allows everything: the kernel by itself has no policy."""

    def check_carried(self, carried: Sequence[Carried], choices: Choices) -> None:
        """Returns."""

    def check_written(self, written: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Returns."""


ALL_KEYS: Final = AllKeys()


class CarryProposal:
    """Carries prepared changes onto whatever the head is: transplant, cherry-pick, revert.

    `undone` are commits that the changes undo; the head must have them in its history.
    """

    def __init__(
        self,
        carried: Sequence[Carried],
        choices: Choices,
        incarnation: int | None,
        undone: Sequence[CommitView] = (),
        rights: CarryRights = ALL_KEYS,
    ) -> None:
        check_choices(choices)
        self._rights = rights
        self.carried = carried
        self._choices = choices
        self._undone = undone
        self.incarnation = incarnation
        self.base: CommitView | None = None

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans one commit for each that leaves something to do; reports all conflicts at once."""
        for view in self._undone:
            if not head.stands_on(view):
                raise ReferenceNotFound(
                    f"Could not find commit '{view.obj_id.hex()}' in reference '{head.row.name}'."
                )
        self._rights.check_carried(self.carried, self._choices)
        return carry(head, self.carried, self._choices, self._rights)


class MergeProposal:
    """Merges a source commit into whatever the head is."""

    def __init__(
        self,
        context: RepositoryContext,
        source: CommitView,
        message: str,
        choices: Choices,
        *,
        replay: bool = False,
        headers: Headers = (),
        hidden: Headers = (),
        incarnation: int | None = None,
        rights: CarryRights = ALL_KEYS,
        rewrite: Rewrite = kept,
        empty: EmptyMerge = "never",
        records_source: bool = True,
    ) -> None:
        check_choices(choices)
        self._empty = empty
        self._merged = (source.obj_id,) if records_source else ()
        self._context = context
        self._rights = rights
        self._rewrite = rewrite
        self._source = source
        self._message = message
        self._choices = choices
        self._replay = replay
        self._headers = headers
        self._hidden = hidden
        self.incarnation = incarnation
        self.base: CommitView | None = None
        self.carried: Sequence[Carried] = ()

    def plan(self, head: Head) -> Sequence[CommitPlan]:
        """Plans the merge; nothing if the head has everything of the source already.

        `empty` states when that is a commit without changes.

        Leaves in `base` and `carried` from where the sides parted and what the source has changed
        since.
        """
        base = self._find_base(head)
        head.check_again(partial(self._parted_at, base, head.view))
        self.base, self.carried = base, ()
        if base.obj_id == self._source.obj_id:
            return self._unchanged(self._empty == "always")
        if self._replay:
            self.carried = self._replayed(head)
        else:
            self.carried = [
                Carried(
                    changes=list(diff_commits(head.nodes, base, self._source)),
                    message=self._message,
                    headers=self._headers,
                    hidden=self._hidden,
                    merged=self._merged,
                    bases=(base,),
                    state=self._source,
                )
            ]
        self._rights.check_carried(self.carried, self._choices)
        touched = {change.key for one in self.carried for change in one.changes}
        unknown = set(self._choices.keys).difference(touched)
        if unknown:
            raise Invalid(f"{len(unknown)} keys have a merge behaviour but were not changed")
        return carry(head, self.carried, self._choices, self._rights) or self._unchanged(
            self._empty != "never"
        )

    def _unchanged(self, is_commit: bool) -> list[CommitPlan]:
        """Plans what a merge is that changes nothing."""
        if not is_commit:
            return []
        return [CommitPlan((), self._message, self._headers, self._hidden, merged=self._merged)]

    def _find_base(self, head: Head) -> CommitView:
        # A lane remembers what was merged before.
        reach = head.builder.reach
        find = merge_base if reach is None else reach.merge_base
        return find(head.commits, head.view, self._source) or head.commits.load(EMPTY_ID)

    def _parted_at(self, base: CommitView, planned: CommitView, head: Head) -> bool:
        """Returns whether a later head has of the source what the one that was planned on had.

        Commits without further parents bring nothing of the source, unless they are themselves in
        its history; then their generation is not above that of the source. Of a merge that came
        meanwhile only what it has merged is compared, not all that the branch has merged before.
        """
        is_plain = head.view.merges == planned.merges
        is_later = self._source.generation <= planned.generation
        if is_plain and is_later:
            return True
        if self._replay and not is_plain:
            # What a replay leaves out depends on more than on the base.
            return False
        if is_later and not self._is_brought(base, planned, head):
            return True
        return self._find_base(head).obj_id == base.obj_id

    def _is_brought(self, base: CommitView, planned: CommitView, head: Head) -> bool:
        """Returns whether a merge after the planned head may have brought a better base."""
        commits = head.commits
        for view in line_between(commits, planned.obj_id, head.view):
            for raw in () if view.body is None else view.body.parents[1:]:
                found = merge_base(commits, commits.load(ObjId(raw)), self._source)
                if found is not None and found.obj_id != base.obj_id:
                    if found.generation >= base.generation:
                        return True
        return False

    def _replayed(self, head: Head) -> list[Carried]:
        # Not the line after the merge base: after a merge of the target that is not on the line.
        shared = shared_sequence(head.commits, self._source, head.view)
        line = line_above(head.commits, shared, self._source)
        carried = replayed(
            self._context, line, head, hidden=lambda _: self._hidden, rewrite=self._rewrite
        )
        # The last commit records that the source is merged; the next merge finds it.
        merged = (self._source.obj_id,)
        return [*carried[:-1], msgspec.structs.replace(carried[-1], merged=merged)]


def replayed(
    context: RepositoryContext,
    line: Sequence[CommitView],
    target: Head | None = None,
    *,
    hidden: Callable[[CommitView], Headers] = lambda _: (),
    rewrite: Rewrite = kept,
) -> list[Carried]:
    """Prepares commits to be made again elsewhere, each with its own message and headers.

    `rewrite` changes the headers. Hidden ones are never copied: they are of who made the original.
    What a merge took from commits that the target has is the target's own and is not carried
    back: the target may have changed it since.
    """
    carried = []
    for commit, start in zip(line, _starts(context, line), strict=True):
        body = commit.body
        if body is None:
            raise Invalid("the empty commit cannot be carried anywhere")
        changes = own_changes(context.views, context.nodes, commit)
        for merged in context.views.load_many([ObjId(raw) for raw in body.parents[1:]]):
            if target is not None and has_merged(target.commits, target.view, merged):
                changes = _not_taken_from(context, merged, changes)
        carried.append(
            Carried(
                changes=changes,
                message=body.message,
                headers=rewrite(body.headers),
                hidden=hidden(commit),
                bases=(start,),
                state=commit,
            )
        )
    return carried


def _starts(context: RepositoryContext, line: Sequence[CommitView]) -> list[CommitView]:
    """Returns for each commit where the run of commits that follow each other starts."""
    starts: list[CommitView] = []
    before: ObjId | None = None
    for commit in line:
        starts.append(starts[-1] if commit.parent == before else context.views.load(commit.parent))
        before = commit.obj_id
    return starts


def _not_taken_from(
    context: RepositoryContext, merged: CommitView, changes: Sequence[Difference]
) -> list[Difference]:
    taken: dict[bytes, bytes | None] = {}
    for universe in Universe:
        keys = sorted(change.key for change in changes if change.key[0] == universe)
        taken.update(zip(keys, find_many(context.nodes, merged.index(universe), keys), strict=True))
    return [
        change for change in changes if not same_state(change.key, taken[change.key], change.right)
    ]


def squashed(
    context: RepositoryContext,
    line: Sequence[CommitView],
    message: str,
    headers: Headers,
    hidden: Headers,
) -> Carried:
    """Prepares several commits, in the order given, to be made as one; the message lists them.

    They need not follow each other, nor be of one branch.
    """
    if not line:
        raise Invalid("there is nothing to carry")
    lines = [own_changes(context.views, context.nodes, view) for view in line]
    listed = [f"{view.obj_id.hex()} {title_of(view)}" for view in line]
    return Carried(
        changes=composed(lines),
        message=listing(message, listed),
        headers=headers,
        hidden=hidden,
        bases=tuple(_starts(context, line)),
        state=line[-1],
        states={
            change.key: view
            for view, changes in zip(line, lines, strict=True)
            for change in changes
            if not same_state(change.key, change.left, change.right)
        },
    )


def composed(lines: Iterable[Sequence[Difference]]) -> list[Difference]:
    """Puts the changes of several commits together; those that follow each other become one."""
    found: dict[bytes, list[Difference]] = {}
    for changes in lines:
        for change in changes:
            if same_state(change.key, change.left, change.right):
                continue
            earlier = found.setdefault(change.key, [])
            if earlier and same_state(change.key, earlier[-1].right, change.left):
                earlier[-1] = Difference(change.key, earlier[-1].left, change.right)
            else:
                earlier.append(change)
    return [change for key in ordered(found) for change in found[key]]


def reverted(
    context: RepositoryContext,
    commit: CommitView,
    message: str,
    headers: Headers = (),
    hidden: Headers = (),
) -> Carried:
    """Prepares the undoing of one commit."""
    changes = own_changes(context.views, context.nodes, commit)
    undone = [Difference(change.key, change.right, change.left) for change in changes]
    state = context.views.load(commit.parent)
    return Carried(
        changes=undone,
        message=message,
        headers=headers,
        hidden=hidden,
        bases=(commit,),
        state=state,
    )


def carry(
    head: Head,
    carried: Sequence[Carried],
    choices: Choices,
    rights: CarryRights = ALL_KEYS,
) -> list[CommitPlan]:
    """Plans the commits that carry changes onto a head, one after the other."""
    lines = [[change for change in one.changes if not is_record(change.key)] for one in carried]
    keys = ordered(change.key for changes in lines for change in changes)
    target, records = _Target(dict(head.find(keys)), choices), RecordsOnHead(head)
    plans = []
    for one, changes in zip(carried, lines, strict=True):
        operations = target.take(changes)
        operations += records.follow(one.changes, one.state, one.states, operations)
        if operations:
            plans.append(CommitPlan(operations, one.message, one.headers, one.hidden))
    if rights is not ALL_KEYS:
        rights.check_written([(key, one.source) for key, one in target.conflicts.items()])
        rights.check_written([(op.key, op.element) for plan in plans for op in plan.operations])
    if target.conflicts:
        conflicts = tuple(target.conflicts.values())
        message = f"{len(conflicts)} keys were changed on both sides; resolve them and merge again"
        raise KeysConflict(message, conflicts)
    check_planned(head, (one for plan in plans for one in plan.operations))
    merged = tuple(parent for one in carried for parent in one.merged)
    if plans and merged:
        plans[-1] = msgspec.structs.replace(plans[-1], merged=merged)
    return plans


class _Target:
    """What a head holds while changes are carried onto it, and the conflicts met so far."""

    def __init__(self, current: dict[bytes, bytes | None], choices: Choices) -> None:
        self._current = current
        self._choices = choices
        # Keys that a change was looked at for, and those that later changes leave alone.
        self._begun: set[bytes] = set()
        self._settled: set[bytes] = set()
        self.conflicts: dict[bytes, MergeConflict] = {}

    def take(self, changes: Sequence[Difference]) -> list[Operation]:
        """Carries the changes of one commit; returns what remains to be done, each key once."""
        before: dict[bytes, bytes | None] = {}
        operations: dict[bytes, Operation] = {}
        for change in changes:
            key = change.key
            unchanged = same_state(key, change.left, change.right)
            wanted = None if unchanged else self._take_one(change)
            if wanted is None:
                continue
            before.setdefault(key, self._current[key])
            earlier = operations.get(key)
            if earlier is not None:
                wanted = Operation(key, wanted.element, earlier.expected)
            operations[key] = wanted
            self._current[key] = wanted.element
        return [
            one for key, one in operations.items() if not same_state(key, one.element, before[key])
        ]

    def _take_one(self, change: Difference) -> Operation | None:
        key, target = change.key, self._current[change.key]
        choice = self._choices.of(key)
        if choice.behaviour is Behaviour.DROP or key in self._settled:
            return None
        if key in self.conflicts:
            met = self.conflicts[key]
            self.conflicts[key] = msgspec.structs.replace(met, source=change.right)
            return None
        is_named = choice.has_expected_target and key not in self._begun
        self._begun.add(key)
        element = choice.resolved if choice.has_resolved else change.right
        expected = choice.expected_target if is_named else change.left
        if same_state(key, target, expected):
            if choice.has_resolved:
                self._settled.add(key)
            is_done = same_state(key, target, element)
            return None if is_done else Operation(key, element, target)
        if not is_named:
            if same_state(key, target, element):
                return None
            if choice.behaviour is Behaviour.FORCE:
                return Operation(key, element, ANY)
            is_taken = choice.behaviour is Behaviour.TAKE_TARGET_ON_CONFLICT
            if is_taken or self._choices.keeps_target(change, target):
                self._settled.add(key)
                return None
        self.conflicts[key] = MergeConflict(key, change.left, change.right, target, expected)
        return None
