"""Use cases that read commits as a graph: one commit, ancestors by all parents, merge bases.

A right on a reference covers its history by first parents. So a caller that may not read every
commit of the repository gets the history by first parents, whatever was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.requests import COMMIT_PREFIX_DIGITS_MIN, LOG_SCANNED_MAX, PAGE_ENTRIES_MAX
from lochan.catalog.meta import meta_of
from lochan.kernel.history import is_ancestor, iterate_ancestors, iterate_log, merge_base
from lochan.kernel.views import CommitView
from lochan.model.commits import CommitMeta
from lochan.model.specs import ReferenceSpec
from lochan.service.resolve import Reads, Resolved

_LOG: Final = (Action.READ_LOG,)


class LoggedCommit(msgspec.Struct, frozen=True):
    """A commit of a log; the empty commit, which every history begins with, has no parents."""

    meta: CommitMeta
    generation: int
    created_us: int


class CommitPage(msgspec.Struct, frozen=True):
    """Commits of a log, and whether there are more."""

    commits: tuple[LoggedCommit, ...]
    has_more: bool


class MergeBase(msgspec.Struct, frozen=True):
    """Two commits and their best common ancestor, by their hashes."""

    source: str
    target: str
    base: str


class CommitLog(Reads):
    """Reads the commits of one repository."""

    def get(self, call: Call, spec: ReferenceSpec) -> LoggedCommit:
        """Returns one commit."""
        return self._logged(self._resolver.read(call, Action.READ_LOG, spec).view)

    def page(
        self,
        call: Call,
        spec: ReferenceSpec,
        limit: int,
        *,
        after: str = "",
        since_us: int | None = None,
        first_parent: bool = False,
        stop_at: ReferenceSpec | None = None,
    ) -> CommitPage:
        """Returns a commit and its ancestors, those that have others before these.

        The page begins behind the commit `after`. It ends with `stop_at`, and before the first
        commit that is older than `since_us`. The empty commit is the last one.
        """
        count = min(limit, PAGE_ENTRIES_MAX)
        resolved = self._resolver.read(call, Action.READ_LOG, spec)
        last = None
        if stop_at is not None:
            last = self._resolver.read(call, Action.READ_LOG, stop_at).view.obj_id
        found: list[LoggedCommit] = []
        for view in self._behind(call, resolved, after, first_parent=first_parent):
            if since_us is not None and (view.body is None or view.body.created_us < since_us):
                break
            if len(found) == count:
                return CommitPage(tuple(found), has_more=True)
            found.append(self._logged(view))
            if view.obj_id == last:
                break
        return CommitPage(tuple(found), has_more=False)

    def find_id(self, call: Call, digits: str) -> str:
        """Returns the hash of the only commit whose hash begins with these digits.

        Only for callers that may read every commit; to others there is none.
        """
        missing = ReferenceNotFound(f"Commit '{digits}' not found")
        whole = len(digits) // 2 * 2
        if len(digits) < COMMIT_PREFIX_DIGITS_MIN or not self._resolver.reaches(call, _LOG):
            raise missing
        if EMPTY_ID.hex().startswith(digits):
            return EMPTY_ID.hex()
        ids = self._context.objects.find_commit_ids(bytes.fromhex(digits[:whole]), PAGE_ENTRIES_MAX)
        found = [one.hex() for one in ids if one.hex().startswith(digits)]
        if not found:
            raise missing
        if len(found) > 1:
            raise Invalid(f"several commits begin with '{digits}': give more digits")
        return found[0]

    def merge_base(self, call: Call, source: ReferenceSpec, target: ReferenceSpec) -> MergeBase:
        """Returns where two histories parted."""
        one, other = (
            self._resolver.read(call, Action.READ_LOG, spec).view for spec in (source, target)
        )
        base = merge_base(self._context.views, one, other)
        shown = EMPTY_ID if base is None else base.obj_id
        return MergeBase(one.obj_id.hex(), other.obj_id.hex(), shown.hex())

    def _behind(
        self, call: Call, resolved: Resolved, after: str, *, first_parent: bool
    ) -> Iterator[CommitView]:
        """Yields the history behind a commit of it, all of it without one."""
        views, start = self._context.views, resolved.view
        # Without a merge on it, the line of first parents is all there is.
        is_line = first_parent or not start.merges or not self._resolver.reaches(call, _LOG)
        if after == EMPTY_ID.hex():
            return
        wanted = None
        if after:
            wanted = self._resolver.read_on(
                call, Action.READ_LOG, resolved, ReferenceSpec(None, after)
            ).view
            if (is_line or wanted.merges == start.merges) and is_ancestor(views, wanted, start):
                # Everything behind it is in its own history.
                start = wanted
        iterate = iterate_log if is_line else iterate_ancestors
        for scanned, view in enumerate(iterate(views, start.obj_id)):
            if wanted is None:
                yield view
            elif view.obj_id == wanted.obj_id:
                wanted = None
            elif scanned >= LOG_SCANNED_MAX:
                raise Invalid(f"the commit {after} is too far from {resolved.reference.hash}")
        if wanted is not None:
            raise ReferenceNotFound(f"Commit '{after}' not found")
        yield views.load(EMPTY_ID)

    def _logged(self, view: CommitView) -> LoggedCommit:
        created_us = self._context.description.created_us
        if view.body is not None:
            created_us = view.body.created_us
        return LoggedCommit(meta_of(view), view.generation, created_us)
