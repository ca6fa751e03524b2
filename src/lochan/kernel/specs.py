"""Walks the relative steps of a reference specification (`model/specs.py`) through history."""

from __future__ import annotations

from lochan.base.errors import ReferenceNotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.kernel.history import ancestor_at
from lochan.kernel.views import CommitView, Views
from lochan.model.specs import Step


def resolve_steps(views: Views, start: CommitView, steps: tuple[Step, ...]) -> CommitView:
    """Follows the steps; ReferenceNotFound where there is no such commit."""
    view = start
    for step in steps:
        if step.mark == "~":
            if step.number > view.sequence:
                raise ReferenceNotFound(f"{view.obj_id.hex()} has only {view.sequence} ancestors")
            view = views.load(ancestor_at(views, view, view.sequence - step.number))
        elif step.mark == "^":
            view = views.load(_parent(view, step.number))
        else:
            view = _not_younger(views, view, step.number)
    return view


def _parent(view: CommitView, number: int) -> ObjId:
    parents = () if view.body is None else view.body.parents
    if not 1 <= number <= len(parents):
        raise ReferenceNotFound(f"{view.obj_id.hex()} has {len(parents)} parents, not {number}")
    return ObjId(parents[number - 1])


def _not_younger(views: Views, start: CommitView, time_us: int) -> CommitView:
    """Searches by halves: the time of creation never falls along the line of first parents."""
    low, high = 0, start.sequence
    while low < high:
        middle = (low + high + 1) // 2
        view = views.load(ancestor_at(views, start, middle))
        if view.body is not None and view.body.created_us <= time_us:
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise ReferenceNotFound("there is no commit as old as that")
    found = ancestor_at(views, start, low)
    return views.load(found) if found != EMPTY_ID else start
