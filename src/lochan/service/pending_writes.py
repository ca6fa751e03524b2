"""A write that is prepared and not published yet.

A use case that commits does not wait: it returns what is to be published on which branch, and how
to answer from the outcome. The driver of the lanes publishes it: threads (`embedded`) or an event
loop (`http`). Pending writes are built by `service/claims.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from lochan.base.errors import LochanError
from lochan.base.limits.server import BRIEF_OPERATIONS_MAX
from lochan.base.names import REFS_NAME, RefName
from lochan.kernel.build import Head
from lochan.kernel.plan import CommitPlan
from lochan.kernel.publish import Proposal, Settled

_Answer = TypeVar("_Answer")
_Other = TypeVar("_Other")


class PendingWrite(msgspec.Struct, Generic[_Answer], frozen=True):
    """A proposal for the lane of a branch; `finish` turns its outcome into the answer.

    `finish` raises what the proposal was refused for. A dry run is planned on the present head
    by `Publisher.preview` and never queued. `operations` is how much work planning will be.
    With `finish_writes`, finishing reads and writes the store as well; for a write with an
    idempotency key (`keyed`) it does so if this try has committed nothing. `grafts` is for
    proposals that record what their plans rely on.
    """

    branch: RefName
    proposal: Proposal
    finish: Callable[[Settled], _Answer]
    dry_run: bool = False
    operations: int = 1
    finish_writes: bool = False
    keyed: bool = False
    grafts: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it is prepared outside the lane (`kernel/preparation.py`)."""
        return self.grafts and self.operations > BRIEF_OPERATIONS_MAX

    def finish_uses_store(self, settled: Settled) -> bool:
        """Returns whether finishing has to wait for the store."""
        if self.finish_writes or not self.keyed:
            return self.finish_writes
        return isinstance(settled, LochanError) or not settled.commits

    def then(self, change: Callable[[_Answer], _Other]) -> PendingWrite[_Other]:
        """Returns the same with its answer changed."""
        finish = self.finish
        return self.finished_by(lambda settled: change(finish(settled)))

    def finished_by(self, finish: Callable[[Settled], _Other]) -> PendingWrite[_Other]:
        """Returns the same proposal, finished in another way."""
        return PendingWrite(
            self.branch,
            self.proposal,
            finish,
            self.dry_run,
            self.operations,
            self.finish_writes,
            self.keyed,
            self.grafts,
        )


class _Nothing:
    """A proposal that has nothing to commit."""

    incarnation = None

    def plan(self, head: Head) -> Sequence[CommitPlan]:  # noqa: ARG002 - the protocol has it
        """Plans nothing."""
        return []


def answered(answer: _Answer) -> PendingWrite[_Answer]:
    """Returns a write that was done before as one with nothing to do, in the lane of the names.

    (Its own branch may be gone; the index of names always exists.)
    """
    return PendingWrite(REFS_NAME, _Nothing(), lambda _: answer)
