"""The commits of a merge, a transplant, a pick or a revert: read for a caller, or read again.

The caller needs the right to read the contents of each. A commit that is named beside a reference
is read in that reference, which must have it; one that is named by its hash alone needs the right
on all references.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from lochan.access.policy import Action, Call
from lochan.base.checks import check_stored
from lochan.base.errors import Invalid, ReferenceNotFound, TooLarge
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.limits.commits import (
    LIGHT_MERGE_COMMITS_MAX,
    LIGHT_MERGE_TARGET_COMMITS_MAX,
    REBASE_COMMITS_MAX,
)
from lochan.base.names import RefName
from lochan.codec.rows import ReferenceRow
from lochan.kernel.changes import line_between
from lochan.kernel.claims import RequestOutcome
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import is_ancestor, meeting
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.views import CommitView
from lochan.model.requests import RevertRequest, TransplantRequest
from lochan.model.specs import ReferenceSpec
from lochan.service.resolve import Resolved, Resolver


class MergeLine(msgspec.Struct, frozen=True):
    """Commits that are merged, carried or undone, and the reference that they are read in.

    Without a reference they were named by their hashes alone.
    """

    commits: Sequence[CommitView]
    reference: str | None


class MergeSources:
    """Reads the sources of merges in one repository."""

    def __init__(
        self, context: RepositoryContext, resolver: Resolver, names: ReferenceIndex
    ) -> None:
        self._context = context
        self._resolver = resolver
        self._names = names

    def read(self, call: Call, spec: ReferenceSpec) -> Resolved:
        """Returns what is to be merged; a hash that was named with a reference is one of its own.

        (The empty commit has nothing that could be merged; to empty a branch, assign it.)
        """
        resolved = self._resolver.read(call, Action.READ_CONTENT, spec)
        if resolved.view.obj_id == EMPTY_ID:
            raise Invalid("The source of a merge is a commit, not the empty hash.")
        if resolved.row is not None and spec.hash is not None:
            self._check_reachable(resolved, [resolved.view])
        return resolved

    def read_reachable(self, call: Call, request: TransplantRequest) -> MergeLine:
        """Returns commits that follow each other, of the source if the request names one."""
        if not request.source:
            line = self._read_by_hash(call, request)
        else:
            source = self._resolver.read(call, Action.READ_CONTENT, ReferenceSpec(request.source))
            line = self._read_in(call, source, request)
            self._check_reachable(source, line.commits)
        for earlier, later in pairwise(line.commits):
            if later.parent != earlier.obj_id:
                raise Invalid("Sequence of hashes is not contiguous.")
        return line

    def read_picked(self, call: Call, request: TransplantRequest) -> MergeLine:
        """Returns any commits; in the source, if the request names one that has all of them."""
        if request.source:
            source = self._resolver.read(call, Action.READ_CONTENT, ReferenceSpec(request.source))
            if source.row is not None and self._has_all(source.row, _named(request)):
                return self._read_in(call, source, request)
        return self._read_by_hash(call, request)

    def _has_all(self, row: ReferenceRow, named: Sequence[ReferenceSpec]) -> bool:
        """Returns whether a reference has all of the commits.

        Nothing was decided on them yet. So one that is not there, or has fewer ancestors than its
        steps need, is no error here: the caller gets the answer to what it may not read.
        """
        try:
            found = [self._resolver.reread(spec) for spec in named]
        except ReferenceNotFound:
            return False
        return self._find_strange(row, found) is None

    def read_undone(self, call: Call, request: RevertRequest) -> MergeLine:
        """Returns commits of the branch; that it has them is proved on the head of the plan."""
        branch = self._resolver.read(call, Action.READ_CONTENT, ReferenceSpec(request.branch))
        return self._read_in(call, branch, request)

    def reread(self, request: TransplantRequest | RevertRequest) -> list[CommitView]:
        """Returns the commits of a request that was done; the caller decides on them."""
        return [self._resolver.reread(spec) for spec in request.hashes]

    def find_merged(self, done: RequestOutcome) -> CommitView:
        """Returns the source of a merge that was done: a parent of its last commit, or recorded."""
        if not done.commits:
            return self._context.views.load(ObjId(bytes.fromhex(done.source)))
        body = done.commits[-1].body
        check_stored(body is not None and len(body.parents) > 1, "a merge has two parents")
        return self._context.views.load(EMPTY_ID if body is None else ObjId(body.parents[-1]))

    def name(self, source: str | None) -> str | None:
        """Returns the name of the reference that a request names; None for a hash alone."""
        return self._resolver.name(source) if source else None

    def find_holder(self, source: str, commits: Sequence[CommitView]) -> str | None:
        """Returns the name of a source if it is there and has all of the commits."""
        found = self._names.find(self._resolver.name(source)) if source else None
        if found is None or self._find_strange(found.row, commits) is not None:
            return None
        return found.row.name

    def _read_by_hash(self, call: Call, request: TransplantRequest) -> MergeLine:
        """Returns the commits that a request names, by their hashes alone."""
        resolver, action = self._resolver, Action.READ_CONTENT
        return line_of([resolver.read(call, action, spec) for spec in _named(request)])

    def _read_in(
        self, call: Call, source: Resolved, request: TransplantRequest | RevertRequest
    ) -> MergeLine:
        """Returns the commits that a request names, read in a reference."""
        resolver, action = self._resolver, Action.READ_CONTENT
        return line_of([resolver.read_on(call, action, source, spec) for spec in _named(request)])

    def count_changes(self, branch: RefName, source: CommitView) -> int | None:
        """Returns how many changes a merge has at most; None if they are many or not known.

        Reads a few commits only. The merge base is where the lines of first parents meet, or later
        on the line of the source, so the changes are those of the commits after that place.
        """
        found = self._names.find(branch)
        if found is None or found.row.kind != "BRANCH":
            return None
        views = self._context.views
        head = views.load(ObjId(found.row.pointer))
        shared = meeting(views, head, source)
        if (
            source.merges != shared.merges
            or source.sequence - shared.sequence > LIGHT_MERGE_COMMITS_MAX
            or head.sequence - shared.sequence > LIGHT_MERGE_TARGET_COMMITS_MAX
        ):
            return None
        changes = 0
        for view in line_between(views, shared.obj_id, source):
            own = None if view.body is None else view.body.own
            if own is None:
                return None
            changes += len(own)
        return changes

    def _check_reachable(self, source: Resolved, commits: Sequence[CommitView]) -> None:
        row = source.row
        strange = None if row is None else self._find_strange(row, commits)
        if row is not None and strange is not None:
            raise ReferenceNotFound(
                f"Could not find commit '{strange.obj_id.hex()}' in reference '{row.name}'."
            )

    def _find_strange(self, row: ReferenceRow, commits: Sequence[CommitView]) -> CommitView | None:
        """Returns the first commit that is not in the history of a reference."""
        head, views = self._resolver.head(row), self._context.views
        return next((view for view in commits if not is_ancestor(views, view, head)), None)


def line_of(resolved: Sequence[Resolved]) -> MergeLine:
    """Returns commits that are to be carried or undone; all are read in the same reference."""
    line = [each.view for each in resolved]
    if any(view.obj_id == EMPTY_ID for view in line):
        raise Invalid("The empty hash is no commit that could be carried or undone.")
    row = resolved[0].row
    return MergeLine(line, None if row is None else row.name)


def _named(request: TransplantRequest | RevertRequest) -> tuple[ReferenceSpec, ...]:
    """Returns the hashes of a request; at least one, and not too many."""
    if not request.hashes:
        raise Invalid("No hashes given to transplant.")
    if any(spec.name is not None for spec in request.hashes):
        # A step from the head of the source would be taken instead.
        raise Invalid("commits that are carried or undone are named by their hashes")
    if len(request.hashes) > REBASE_COMMITS_MAX:
        raise TooLarge(f"at most {REBASE_COMMITS_MAX} commits are carried in one call")
    return request.hashes
