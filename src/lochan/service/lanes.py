"""What a write on a branch hands to whoever drives the lanes.

A use case that commits does not wait: it returns what is to be published on which branch, and what
to make of the outcome. Drivers are threads (`embedded`) or an event loop (`http`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from lochan.base.names import RefName
from lochan.kernel.publish import Member, Settled

_Answer = TypeVar("_Answer")
_Other = TypeVar("_Other")


class OnLane(msgspec.Struct, Generic[_Answer], frozen=True):
    """A member for the lane of a branch; `finish` turns what became of it into the answer.

    `finish` raises what the member was refused for. A dry run is planned on the head of the moment
    by `Publisher.preview` and never queued. `operations` is how much work planning will be.
    `finish_writes` says that finishing reads and writes the store as well.
    """

    branch: RefName
    member: Member
    finish: Callable[[Settled], _Answer]
    dry_run: bool = False
    operations: int = 1
    finish_writes: bool = False

    def then(self, change: Callable[[_Answer], _Other]) -> OnLane[_Other]:
        """Returns the same with its answer changed."""
        finish = self.finish
        return OnLane(
            self.branch,
            self.member,
            lambda settled: change(finish(settled)),
            self.dry_run,
            self.operations,
            self.finish_writes,
        )
