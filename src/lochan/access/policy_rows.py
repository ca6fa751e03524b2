"""Policies as rows: as users and groups, and replaced as a whole.

A policy that is replaced keeps its incarnation, so it stays attached to what it was attached to.
"""

from __future__ import annotations

from lochan.access.named_rows import NamedRows
from lochan.access.records import PolicyRow
from lochan.base.errors import Conflict, NotFound
from lochan.base.limits.access import POLICY_WRITERS_MAX
from lochan.model.access import AccessPolicy
from lochan.persist.retry import Retry
from lochan.persist.rows import Done, Doubt, Stamped, Write

_Settled = PolicyRow | Stamped[PolicyRow]
"""The row that was written, or one whose deletion has to be finished first."""


class PolicyRows(NamedRows[PolicyRow]):
    """The policies of one store; for any number of threads."""

    def put(self, new: PolicyRow, expected: int | None, retry: Retry) -> PolicyRow:
        """Creates or replaces a policy; returns the row that is stored.

        `new` has the incarnation of a policy that is created, and an operation id as its only
        writer. Conflict unless the present version is the expected one, if one is; 0 expects that
        there is no such policy.
        """
        if self.find(new.id) is None:
            self.check_count()

        def decide(
            found: Stamped[PolicyRow] | None,
        ) -> Write[PolicyRow, _Settled] | Done[_Settled]:
            if found is not None and found.row.deleting:
                return Done(found)
            before = PolicyRow(1, new.id, b"") if found is None else found.row
            if expected not in (None, before.version):
                raise _unexpected(new.id, before.version)
            row = _replaced(before, new)
            return Write(row, row)

        doubt = Doubt(f"the policy {new.id!r} was changed", "read it")
        blank = PolicyRow(1, new.id, b"")
        while True:
            settled = self.fill(blank, decide, _has_written, retry, doubt)
            if isinstance(settled, PolicyRow):
                return settled
            self.finish(settled, retry)
            retry.again(at_once=True)


def shown(row: PolicyRow) -> AccessPolicy:
    """Returns a policy as users see it."""
    return AccessPolicy(row.id, row.statements, row.description, row.created_us, row.version)


def _replaced(before: PolicyRow, new: PolicyRow) -> PolicyRow:
    is_new = not before.incarnation
    return PolicyRow(
        1,
        new.id,
        new.incarnation if is_new else before.incarnation,
        new.created_us if is_new else before.created_us,
        new.description,
        False,
        before.version + 1,
        (*new.writers, *before.writers)[:POLICY_WRITERS_MAX],
        new.statements,
    )


def _has_written(present: PolicyRow, written: PolicyRow) -> bool:
    return written.writers[0] in present.writers


def _unexpected(name: str, version: int) -> Conflict | NotFound:
    if version == 0:
        return NotFound(f"there is no policy {name!r}")
    return Conflict(f"the policy {name!r} has version {version} now: read it, then change it again")
