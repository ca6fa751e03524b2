"""Reports what has happened to references: chains of commits, and moves.

A report is made after the swap was won and never before: not for conflicts, dry runs, lost races,
requests that found nothing to do, and not for the internal reference that lists all names. Without
an observer nothing is called.

A creation is reported by the caller whose write of the row won, a deletion by the one whose removal
of the name from the index was published: that may be a caller that finishes what another server has
left half done. Who caused it is read from what was stored. If the reply to the write of a new row
was lost, and the row is found, it is not known which of several callers has written it: then more
than one may report the same creation.

Reports of one process may come in another order than their swaps, because threads run between the
two. An operation therefore says when it begins to work on a reference and when it has ended: a
change that was reported while another operation was under way is younger or older than the change
of that one, by the version of the row, and is known to be in order when that one has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from lochan.codec.rows import Move, ReferenceRow
from lochan.kernel.views import CommitView

if TYPE_CHECKING:
    from lochan.kernel.context import RepositoryContext


class SettledCommits(msgspec.Struct, frozen=True):
    """Commits that one compare-and-swap has published, grouped by the request that made them."""

    before: ReferenceRow
    after: ReferenceRow
    groups: tuple[tuple[CommitView, ...], ...]


class SettledMove(msgspec.Struct, frozen=True):
    """A move that is no commit, and the row that it left."""

    after: ReferenceRow
    move: Move


SettledChange = SettledCommits | SettledMove


class SettledObserver(Protocol):
    """Gets every change of the references of all repositories; called by the writer's thread."""

    def begin(self, context: RepositoryContext, name: str) -> int:
        """Returns a number for an operation that may change a reference."""
        ...

    def end(self, context: RepositoryContext, name: str, number: int) -> None:
        """Ends an operation, whatever became of it."""
        ...

    def settle(self, context: RepositoryContext, change: SettledChange) -> None:
        """Takes a change that has taken effect; it must neither wait nor raise."""
        ...


@contextmanager
def observed(context: RepositoryContext, names: Sequence[str]) -> Iterator[None]:
    """Within the block an operation may change these references."""
    observer = context.observer
    if observer is None:
        yield
        return
    numbers = [(name, observer.begin(context, name)) for name in names]
    try:
        yield
    finally:
        for name, number in numbers:
            observer.end(context, name, number)


def is_observed(row: ReferenceRow) -> bool:
    """Returns whether changes of a reference are reported; those of internal ones are not."""
    return row.kind != "INTERNAL"
