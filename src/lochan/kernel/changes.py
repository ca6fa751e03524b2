"""What lies between two commits: key by key, both universes, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from lochan.base.checks import check
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.codec.elements import same_state
from lochan.index.difference import Difference
from lochan.index.layers import diff, find_in_both
from lochan.index.read import iterate
from lochan.index.source import NodeSource
from lochan.kernel.history import ancestor_at
from lochan.kernel.views import CommitSource, CommitView

_KEY: Final = attrgetter("key")
_UNIVERSES: Final = tuple(sorted(Universe))


def diff_commits(
    nodes: NodeSource,
    left: CommitView,
    right: CommitView,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[Difference]:
    """Yields the keys of [start, end) whose states differ, in order; files come before tables.

    A file that was put again as the same file, perhaps at another address, does not differ.
    """
    for one in diff_elements(nodes, left, right, start, end):
        if not same_state(one.key, one.left, one.right):
            yield one


def diff_elements(
    nodes: NodeSource,
    left: CommitView,
    right: CommitView,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[Difference]:
    """Yields the keys of [start, end) whose elements differ in any byte, in order."""
    if left.obj_id == right.obj_id:
        return
    for universe in _UNIVERSES:
        yield from diff(nodes, left.index(universe), right.index(universe), start, end)


def own_changes(commits: CommitSource, nodes: NodeSource, commit: CommitView) -> list[Difference]:
    """Returns what one commit did: each of its own keys, before and after.

    A commit with too many keys to list them has those that it changed in the difference to its
    parent, and a tree of the others, which it put again as they were.
    """
    body = commit.body
    check(body is not None, "the empty commit did nothing")
    parent = commits.load(commit.parent)
    if body is None or body.own is None:
        changed = list(diff_commits(nodes, parent, commit))
        same = unchanged_keys(nodes, commit)
        return sorted([*changed, *_at(nodes, same, commit, commit)], key=_KEY) if same else changed
    return _at(nodes, body.own, parent, commit)


def unchanged_keys(nodes: NodeSource, commit: CommitView) -> list[bytes]:
    """Returns the own keys that a commit left as they were, if it does not list its own keys."""
    root = None if commit.body is None else commit.body.unchanged_root
    return [] if root is None else [key for key, _ in iterate(nodes, ObjId(root))]


def _at(
    nodes: NodeSource, own: Sequence[bytes], parent: CommitView, commit: CommitView
) -> list[Difference]:
    """Returns keys of both universes, in order, with their elements in two commits."""
    found: list[Difference] = []
    for universe in _UNIVERSES:
        keys = [key for key in own if key[0] == universe]
        if keys:
            elements = find_in_both(nodes, parent.index(universe), commit.index(universe), keys)
            found += map(Difference, keys, *elements)
    return found


def line_between(commits: CommitSource, base: ObjId, head: CommitView) -> list[CommitView]:
    """Returns the first-parent commits after the base up to the head, oldest first."""
    line: list[CommitView] = []
    ids = [head.obj_id]
    while ids:
        for view in commits.load_many(ids):
            if view.obj_id == base or view.body is None:
                return line[::-1]
            line.append(view)
        body = line[-1].body
        ids = [] if body is None else [ObjId(raw) for raw in body.tail]
    return line[::-1]


def line_above(commits: CommitSource, sequence: int, head: CommitView) -> list[CommitView]:
    """Returns the first-parent commits after a sequence up to the head, oldest first."""
    return line_between(commits, ancestor_at(commits, head, sequence), head)
