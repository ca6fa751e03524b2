"""Which commits the head of a branch has, by any parents, remembered while the branch grows.

The search for a merge base takes commits by falling generation. If many branches were merged into
one since the base, each search would pass all of them again. Here every commit that the line of
first parents has brought is kept with the sequence at which it came, so that a further commit on
the line adds only what is new by it. What a commit has never changes, so nothing here goes stale.
Every commit that it was asked about must be readable later: it is given up with a chain that was
not published.

Used by the publisher of one branch, by one thread at a time.
"""

from __future__ import annotations

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import REACH_COMMITS_MAX
from lochan.kernel.changes import line_between
from lochan.kernel.history import ancestor_at, is_ancestor, last_where, meeting, merge_base
from lochan.kernel.views import CommitSource, CommitView


class LineReach:
    """The commits that a line of first parents has, above a commit of it, the start."""

    def __init__(self, commits_max: int = REACH_COMMITS_MAX) -> None:
        self._commits_max = commits_max
        self._start: CommitView | None = None
        self._top: CommitView | None = None
        self._reached: dict[ObjId, int] = {}

    def merge_base(
        self, commits: CommitSource, head: CommitView, source: CommitView
    ) -> CommitView | None:
        """Returns what `history.merge_base` returns for a head and a source.

        If no merge is on the source's line above the place where the lines meet, common ancestors
        above that place are commits of this line, and the last one that the head has is the base.
        Any other case is searched as it is without a memory.
        """
        if EMPTY_ID not in (head.obj_id, source.obj_id):
            shared = meeting(commits, head, source)
            is_plain = source.merges == shared.merges != head.merges
            if is_plain and self._extend(commits, head, shared):
                top = head.sequence
                sequence = last_where(
                    commits,
                    source,
                    shared.sequence,
                    lambda view: self._reached.get(view.obj_id, top + 1) <= top,
                )
                base = commits.load(ancestor_at(commits, source, sequence))
                return None if base.body is None else base
        return merge_base(commits, head, source)

    def _extend(self, commits: CommitSource, head: CommitView, shared: CommitView) -> bool:
        """Makes the line one of the head; False if that are too many commits.

        `shared` is on the line of the head, and nothing at or below it is asked for.
        """
        start, top = self._start, self._top
        if (
            start is not None
            and top is not None
            and start.sequence <= shared.sequence
            and is_ancestor(commits, start, head)
        ):
            if is_ancestor(commits, head, top):
                return True
            if is_ancestor(commits, top, head) and self._add_line(commits, start, top, head):
                return True
        self._reached.clear()
        return self._add_line(commits, shared, shared, head)

    def _add_line(
        self, commits: CommitSource, start: CommitView, top: CommitView, head: CommitView
    ) -> bool:
        """Adds the commits of a line above its top; False, and nothing is known, if too many."""
        self._start = self._top = None
        if head.sequence - top.sequence > self._commits_max:
            return False
        line = line_between(commits, top.obj_id, head)
        merged = [ObjId(raw) for view in line if view.body for raw in view.body.parents[1:]]
        if len(merged) > 1:
            # One fetch for what is not in memory.
            commits.load_many(merged)
        for view in line:
            self._add(commits, start, view)
            if len(self._reached) > self._commits_max:
                self._reached.clear()
                return False
        self._start, self._top = start, head
        return True

    def _add(self, commits: CommitSource, start: CommitView, line_view: CommitView) -> None:
        """Adds a commit of the line and what it brings."""
        reached, sequence = self._reached, line_view.sequence
        reached[line_view.obj_id] = sequence
        waiting = [] if line_view.body is None else [*line_view.body.parents[1:]]
        while waiting and len(reached) <= self._commits_max:
            fresh = [ObjId(raw) for raw in dict.fromkeys(waiting) if raw not in reached]
            waiting = []
            for view in commits.load_many(fresh):
                if view.body is not None and view.generation > start.generation:
                    reached[view.obj_id] = sequence
                    waiting += view.body.parents
