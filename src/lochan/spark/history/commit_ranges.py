"""Ranges of commits that many tasks read: positions, ranges, and the pages of a range.

A commit's number, `seq`, counts the commits on its line of first parents up to itself; what lies
below a commit never changes, so `HASH~N` names the same commit in every task and every retry.
The server resolves it in a few reads however long the history is, so a history is cut into ranges
without being read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.requests import LOG_PAGE_COMMITS_MAX
from lochan.base.limits.spark_reads import SPARK_SLICES_MAX
from lochan.client import Client
from lochan.model.commits import LogEntry

EMPTY: Final = EMPTY_ID.hex()
"""The head of a branch without commits."""

_PLAIN_NAME: Final = re.compile(r"(?![0-9a-f]{64}\Z)[^@~^*]+\Z")


class CommitPosition(msgspec.Struct, frozen=True):
    """A commit and its number; the empty commit has number 0."""

    commit: str
    seq: int


class CommitRange(msgspec.Struct, frozen=True):
    """Commits of one line: `count` of them from `tip~back` down; the newest has number `seq`."""

    tip: str
    back: int
    seq: int
    count: int


def is_name(spec: str) -> bool:
    """Returns whether a spec is the name of a branch or tag, whose commit may change."""
    return _PLAIN_NAME.match(spec) is not None


def commit_of(client: Client, spec: str) -> str:
    """Returns the hash that a branch, tag, hash or relative spec names now."""
    if is_name(spec):
        return client.references.get(spec).hash
    found = client.history.log(spec, 1).items
    return (found[0].meta.hash or EMPTY) if found else EMPTY


def position_of(client: Client, spec: str, known: int | None = None) -> CommitPosition:
    """Returns the commit that a spec names now; `known` is its number if the caller has it."""
    if is_name(spec):
        # One response has both, so no commit can come in between.
        reference = client.references.get(spec, fetch_all=True)
        if reference.metadata is not None:
            return CommitPosition(reference.hash, reference.metadata.total)
        commit = reference.hash
    else:
        commit = commit_of(client, spec)
    if commit == EMPTY:
        return CommitPosition(EMPTY, 0)
    if known and len(client.history.log(f"{commit}~{known - 1}", 2).items) == 1:
        return CommitPosition(commit, known)
    return CommitPosition(commit, _count(client, commit))


def ancestor(client: Client, of: CommitPosition, seq: int) -> str:
    """Returns the commit with that number on the line of another, which is not older."""
    if seq == of.seq:
        return of.commit
    return EMPTY if seq == 0 else commit_of(client, f"{of.commit}~{of.seq - seq}")


def is_ancestor(client: Client, older: CommitPosition, of: CommitPosition) -> bool:
    """Returns whether a commit is on the line of another."""
    return older.seq <= of.seq and ancestor(client, of, older.seq) == older.commit


def position_on_line(client: Client, spec: str, of: CommitPosition) -> CommitPosition:
    """Returns the commit of a spec; Invalid unless it is on the line of another."""
    found = position_of(client, spec)
    if not is_ancestor(client, found, of):
        raise Invalid(
            f"{spec[:80]!r} is commit {found.commit}, and that is not among the first parents of "
            f"{of.commit}"
        )
    return found


def split_range(newest: CommitPosition, after: int, size: int) -> list[CommitRange]:
    """Splits the commits after a number up to a position into ranges, the newest first."""
    count = newest.seq - after
    size = max(size, -(-count // SPARK_SLICES_MAX))
    return [
        CommitRange(newest.commit, back, newest.seq - back, min(size, count - back))
        for back in range(0, count, size)
    ]


def pages_of(
    client: Client, part: CommitRange, *, fetch_all: bool = False
) -> Iterator[list[tuple[int, LogEntry]]]:
    """Yields the commits of a range with their numbers, a page at a time, the newest first."""
    spec = f"{part.tip}~{part.back}" if part.back else part.tip
    token: str | None = None
    done = 0
    while done < part.count:
        limit = min(part.count - done, LOG_PAGE_COMMITS_MAX)
        page = client.history.log(spec, limit, token, fetch_all=fetch_all)
        yield [(part.seq - done - at, each) for at, each in enumerate(page.items)]
        done += len(page.items)
        token = page.token
        if token is None and done < part.count:
            raise ReferenceNotFound(
                f"the history of {part.tip} ends after {done} of {part.count} commits"
            )


def _count(client: Client, commit: str) -> int:
    """Counts the commits on a line by binary search, some thirty requests for a million."""

    def reaches(steps: int) -> bool:
        try:
            return bool(client.history.log(f"{commit}~{steps}", 1).items)
        except ReferenceNotFound:
            return False

    high = 1
    while reaches(high):
        high *= 2
    low = high // 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low + 1
