"""Questions about history: ancestors by sequence, by steps, proofs, logs, merge bases.

Most of them are answered by jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush

import msgspec

from lochan.base.checks import check, check_stored
from lochan.base.errors import ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.codec.commits import CommitObject, jump_sequence
from lochan.kernel.views import CommitSource, CommitView
from lochan.model.specs import Step

_LEFT, _RIGHT, _BOTH = 1, 2, 3


class AheadBehind(msgspec.Struct, frozen=True):
    """How two heads differ: the first-parent commits that only one of them has."""

    base: ObjId
    ahead: int
    behind: int


# The proposals of a chain ask for ancestors of one head, so the same few hundred jumps are read
# again and again; computing them was most of a proof.
_jump_of = lru_cache(maxsize=4_096)(jump_sequence)


def ancestor_at(commits: CommitSource, start: CommitView, sequence: int) -> ObjId:
    """Returns the first-parent ancestor with that sequence, in O(log n) reads."""
    check(0 <= sequence <= start.sequence, "an ancestor is not younger")
    view = start
    while view.sequence > sequence:
        body = view.body
        if body is None:
            break
        distance = body.sequence - sequence
        if distance <= len(body.tail):
            return ObjId(body.tail[distance - 1])
        jump = _jump_of(body.sequence)
        if jump >= sequence:
            view = commits.load(ObjId(body.jump))
            check_stored(view.sequence == jump, "a jump leads to the right ancestor")
        else:
            view = commits.load(_best_of_tail(body, sequence))
    return view.obj_id


def _best_of_tail(body: CommitObject, sequence: int) -> ObjId:
    """Returns the ancestor in the tail whose jump comes closest without overshooting.

    The parent at least does not overshoot by more than one step; a later one often jumps further.
    """
    best, reached = 0, body.sequence
    for at in range(len(body.tail)):
        jump = _jump_of(body.sequence - 1 - at)
        if sequence <= jump < reached:
            best, reached = at, jump
    return ObjId(body.tail[best])


def is_ancestor(commits: CommitSource, ancestor: CommitView, of: CommitView) -> bool:
    """Returns whether one commit is a first-parent ancestor of the other, or the same."""
    if ancestor.obj_id in (of.obj_id, EMPTY_ID):
        return True
    if ancestor.sequence >= of.sequence:
        return False
    return ancestor_at(commits, of, ancestor.sequence) == ancestor.obj_id


def iterate_log(commits: CommitSource, start: ObjId) -> Iterator[CommitView]:
    """Yields a commit and its first-parent ancestors, newest first, a batch a fetch."""
    ids = [start]
    while ids:
        oldest = None
        for view in commits.load_many(ids):
            if view.body is None:
                return
            yield view
            oldest = view.body
        ids = [] if oldest is None else [ObjId(raw) for raw in oldest.tail]


def iterate_ancestors(commits: CommitSource, start: ObjId) -> Iterator[CommitView]:
    """Yields a commit and its ancestors by all parents, each once, after everything that has it.

    They come by falling generation, those of one generation by falling time of creation.
    """
    seen, ahead = {start}, dict[ObjId, CommitView]()
    # No id is in it twice, so views are never compared.
    queue: list[tuple[int, int, ObjId, CommitView]] = []
    view = commits.load(start)
    while view.body is not None:
        yield view
        for one in _load_parents(commits, view.body, seen, ahead):
            created_us = 0 if one.body is None else one.body.created_us
            heappush(queue, (-one.generation, -created_us, one.obj_id, one))
        if not queue:
            return
        view = heappop(queue)[3]


def _load_parents(
    commits: CommitSource, body: CommitObject, seen: set[ObjId], ahead: dict[ObjId, CommitView]
) -> list[CommitView]:
    """Returns the parents that were not seen yet; a fetch loads the ancestors behind them too."""
    parents = [ObjId(raw) for raw in body.parents]
    fresh = [parent for parent in dict.fromkeys(parents) if parent not in seen]
    if any(parent not in ahead for parent in fresh):
        tail = [ObjId(raw) for raw in body.tail]
        wanted = [each for each in dict.fromkeys(fresh + tail) if each not in seen]
        ahead.update(zip(wanted, commits.load_many(wanted), strict=True))
    seen.update(fresh)
    return [ahead.pop(parent) for parent in fresh]


def contains(commits: CommitSource, head: CommitView, wanted: ObjId, generation: int) -> bool:
    """Returns whether a commit of that generation is in the first-parent chain of a head.

    This is how the outcome of a write whose reply was lost is found out, so it walks and never
    guesses; the generation bounds the walk, because it falls with every step.
    """
    for view in iterate_log(commits, head.obj_id):
        if view.obj_id == wanted:
            return True
        if view.generation < generation:
            return False
    return False


def merge_base(commits: CommitSource, left: CommitView, right: CommitView) -> CommitView | None:
    """Returns the best common ancestor over all parents; None if the histories share nothing.

    Where the lines of first parents meet, and no merge stands above on either, is the answer, found
    by jumps. Else commits are taken by falling generation, those of one generation in one fetch,
    until one is reached from both sides. One that is better than where the lines meet is above it.
    """
    if EMPTY_ID in (left.obj_id, right.obj_id):
        return None
    shared = meeting(commits, left, right)
    if left.merges == right.merges == shared.merges:
        return None if shared.body is None else shared
    marks: dict[ObjId, int] = {left.obj_id: _LEFT}
    marks[right.obj_id] = marks.get(right.obj_id, 0) | _RIGHT
    found = {left.obj_id: left, right.obj_id: right}
    queue = [(-view.generation, obj_id) for obj_id, view in found.items()]
    heapify(queue)
    while queue:
        # All of one generation are taken together: one of them may mark no other.
        generation, unseen = queue[0][0], []
        while queue and queue[0][0] == generation:
            obj_id = heappop(queue)[1]
            mark, body = marks[obj_id], found[obj_id].body
            if mark == _BOTH:
                return found[obj_id]
            for raw in () if body is None else body.parents:
                parent = ObjId(raw)
                if parent not in marks:
                    unseen.append(parent)
                marks[parent] = marks.get(parent, 0) | mark
        for view in commits.load_many(unseen):
            if view.generation > shared.generation:
                found[view.obj_id] = view
                heappush(queue, (-view.generation, view.obj_id))
    return None if shared.body is None else shared


def meeting(commits: CommitSource, left: CommitView, right: CommitView) -> CommitView:
    """Returns the last commit that both first-parent lines share, in O(log n) reads.

    At one sequence both sides have jumps of one length: where these differ the lines are still
    apart there and may both jump; else they meet within the jump, and step.
    """
    common = min(left.sequence, right.sequence)
    one = commits.load(ancestor_at(commits, left, common))
    other = commits.load(ancestor_at(commits, right, common))
    while one.obj_id != other.obj_id:
        if one.body is None or other.body is None:
            return one if one.body is None else other
        if one.body.jump != other.body.jump:
            pair = (one.body.jump, other.body.jump)
        else:
            pair = (one.body.parents[0], other.body.parents[0])
        one, other = commits.load_many([ObjId(pair[0]), ObjId(pair[1])])
    return one


def shared_sequence(commits: CommitSource, line: CommitView, other: CommitView) -> int:
    """Returns the sequence on a first-parent line up to which the other head has everything.

    That is where the two lines meet, or later, if the other has merged commits of this line. (The
    merge base alone is not enough: after merges in both directions it may be off this line.)
    A head that has a commit has all before it.
    """
    shared = meeting(commits, line, other)
    if other.merges == shared.merges:
        return shared.sequence
    return last_where(commits, line, shared.sequence, lambda view: has_merged(commits, other, view))


def last_where(
    commits: CommitSource, line: CommitView, low: int, holds: Callable[[CommitView], bool]
) -> int:
    """Returns the last sequence of a first-parent line where something holds, at least `low`.

    Where it holds it holds of all commits before, so the place is found by bisection.
    """
    high = line.sequence
    while low < high:
        middle = (low + high + 1) // 2
        if holds(commits.load(ancestor_at(commits, line, middle))):
            low = middle
        else:
            high = middle - 1
    return low


def ahead_behind(commits: CommitSource, left: CommitView, right: CommitView) -> AheadBehind:
    """Counts the commits of each of two first-parent lines that the other head has not."""
    base = merge_base(commits, left, right)
    return AheadBehind(
        EMPTY_ID if base is None else base.obj_id,
        left.sequence - shared_sequence(commits, left, right),
        right.sequence - shared_sequence(commits, right, left),
    )


def has_merged(commits: CommitSource, head: CommitView, wanted: CommitView) -> bool:
    """Returns whether a commit is an ancestor of a head by any parents, or the same."""
    if wanted.obj_id in (head.obj_id, EMPTY_ID):
        return True
    if wanted.generation >= head.generation:
        return False
    base = merge_base(commits, wanted, head)
    return base is not None and base.obj_id == wanted.obj_id


def resolve_steps(commits: CommitSource, start: CommitView, steps: tuple[Step, ...]) -> CommitView:
    """Follows the steps of a reference specification; ReferenceNotFound if one leads nowhere."""
    view = start
    for step in steps:
        if step.mark == "~":
            if step.number > view.sequence:
                raise ReferenceNotFound(f"{view.obj_id.hex()} has only {view.sequence} ancestors")
            view = commits.load(ancestor_at(commits, view, view.sequence - step.number))
        elif step.mark == "^":
            view = commits.load(_parent(view, step.number))
        else:
            view = _not_younger(commits, view, step.number)
    return view


def _parent(view: CommitView, number: int) -> ObjId:
    parents = () if view.body is None else view.body.parents
    if not 1 <= number <= len(parents):
        raise ReferenceNotFound(f"{view.obj_id.hex()} has {len(parents)} parents, not {number}")
    return ObjId(parents[number - 1])


def _not_younger(commits: CommitSource, start: CommitView, time_us: int) -> CommitView:
    """Searches the last commit of a time; along first parents the time of creation never falls."""
    sequence = last_where(
        commits, start, 0, lambda view: view.body is not None and view.body.created_us <= time_us
    )
    if sequence == 0:
        raise ReferenceNotFound("there is no commit as old as that")
    return commits.load(ancestor_at(commits, start, sequence))
