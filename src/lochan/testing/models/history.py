"""History as plain dictionaries: commits with all their parents and their whole content.

Nothing here knows the kernel. Every commit holds its content as a dictionary, every question is
answered by looking at all commits. Values are opaque and compared for equality; `None` means "no
value". Ids are whatever the system under test calls its commits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

# Anything that a dictionary takes; a mapping with keys of one type is one with keys of any.
Key = Any
Value = Hashable
Content = Mapping[Key, Value]


class Change(msgspec.Struct, frozen=True):
    """One key, what it held before and what it holds after; None where there was nothing."""

    key: Key
    before: Value | None
    after: Value | None


class Commit(msgspec.Struct, frozen=True):
    """A commit: its parents, the first one first, what it put (None: removed), what it holds."""

    id: str
    parents: tuple[str, ...]
    operations: Mapping[Key, Value | None]
    content: Content
    message: str = ""


def applied(content: Content, operations: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Returns a content after operations."""
    after = dict(content)
    for key, value in operations.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def difference(left: Content, right: Content) -> list[Change]:
    """Returns the keys that differ, with what both sides hold."""
    keys = {**left, **right}
    return [
        Change(key, left.get(key), right.get(key))
        for key in keys
        if left.get(key) != right.get(key)
    ]


class History:
    """All commits that were ever made, reachable or not.

    The history begins with one empty commit, which is never a merge base. Sets of commits are
    integers here: bit n is the commit that was added as the n-th. A parent is added before its
    children, so its number is smaller.
    """

    def __init__(self, empty: str = "empty") -> None:
        self.empty = empty
        self.commits: dict[str, Commit] = {empty: Commit(empty, (), {}, {})}
        self._numbers: dict[str, int] = {empty: 0}
        self._ids: list[str] = [empty]
        self._ancestors: dict[str, int] = {empty: 1}

    def __contains__(self, commit_id: str) -> bool:
        return commit_id in self.commits

    def add(
        self,
        commit_id: str,
        parents: Iterable[str],
        operations: Mapping[Key, Value | None],
        message: str = "",
    ) -> Commit:
        """Adds a commit on top of its first parent; raises ValueError if the id is taken."""
        if commit_id in self.commits:
            raise ValueError(f"commit {commit_id} was made before")
        above = tuple(parents)
        content = applied(self.content(above[0]), operations)
        made = Commit(commit_id, above, dict(operations), content, message)
        reached = 1 << len(self._ids)
        for parent in above:
            reached |= self._ancestors[parent]
        self.commits[commit_id] = made
        self._numbers[commit_id] = len(self._ids)
        self._ids.append(commit_id)
        self._ancestors[commit_id] = reached
        return made

    def content(self, commit_id: str) -> Content:
        """Returns all that a commit holds."""
        return self.commits[commit_id].content

    def has(self, head: str, commit_id: str) -> bool:
        """Returns whether a commit is an ancestor of a head by any parents, or the head itself."""
        return bool(self._ancestors[head] >> self._numbers[commit_id] & 1)

    def line(self, head: str) -> Iterator[Commit]:
        """Yields a commit and its first-parent ancestors, newest first, without the empty one."""
        commit = self.commits[head]
        while commit.parents:
            yield commit
            commit = self.commits[commit.parents[0]]

    def is_on_line(self, head: str, commit_id: str) -> bool:
        """Returns whether a commit is a first-parent ancestor of a head, or the head itself."""
        return commit_id == self.empty or any(commit.id == commit_id for commit in self.line(head))

    def line_until(self, head: str, other: str) -> list[Commit]:
        """Returns the first-parent commits of a head that another commit has not, oldest first."""
        found = []
        for commit in self.line(head):
            if self.has(other, commit.id):
                break
            found.append(commit)
        return found[::-1]

    def best_common_ancestors(self, left: str, right: str) -> list[str]:
        """Returns every common ancestor that is no ancestor of another one.

        The empty commit counts only where there is no other: then it is the only one.
        """
        common = self._ancestors[left] & self._ancestors[right] & ~1
        best = []
        while common:
            # No common ancestor has a larger number, so none can descend from this one.
            top = self._ids[common.bit_length() - 1]
            best.append(top)
            common &= ~self._ancestors[top]
        return best or [self.empty]

    def own_changes(self, commit: Commit) -> list[Change]:
        """Returns what a commit did, key by key, also where it put what was there before."""
        before = self.content(commit.parents[0])
        return [Change(key, before.get(key), value) for key, value in commit.operations.items()]

    def difference(self, left: str, right: str) -> list[Change]:
        """Returns the keys that differ between two commits."""
        return difference(self.content(left), self.content(right))
