"""Wrong decisions that were made once, or could be made: the walks must find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lochan.catalog import merge as catalog_merge
from lochan.index.difference import Difference
from lochan.kernel import head_moves
from lochan.kernel import merge as kernel_merge
from lochan.kernel.changes import diff_commits, own_changes
from lochan.kernel.history import is_ancestor
from tests.stateful.test_history_walks import embedded, fails

WALKS = 40
STEPS = 250

Patch = Callable[[pytest.MonkeyPatch], None]


def from_first_to_last(patch: pytest.MonkeyPatch) -> None:
    """A squashed pick carries the difference from the first commit's parent to the last one."""
    real = kernel_merge.squashed

    def squashed(context: Any, line: Any, *more: Any) -> Any:
        first = context.views.load(line[0].parent)
        changes = list(diff_commits(context.nodes, first, line[-1]))
        return msgspec.structs.replace(real(context, line, *more), changes=changes)

    patch.setattr("lochan.service.merges.squashed", squashed)


def gaps_are_closed(patch: pytest.MonkeyPatch) -> None:
    """Changes that do not follow each other are put together as if they did."""

    def composed(lines: Any) -> list[Difference]:
        found: dict[bytes, Difference] = {}
        for changes in lines:
            for change in changes:
                first = found.get(change.key, change)
                found[change.key] = Difference(change.key, first.left, change.right)
        return [found[key] for key in sorted(found)]

    patch.setattr(kernel_merge, "composed", composed)


def expected_at_every_change(patch: pytest.MonkeyPatch) -> None:
    """What the caller expects is compared with each change of a replay, not with the first."""
    real = kernel_merge._Target._take_one

    def take_one(target: Any, change: Any) -> Any:
        target._begun.clear()
        return real(target, change)

    patch.setattr(kernel_merge._Target, "_take_one", take_one)


def contents_under_two_keys(patch: pytest.MonkeyPatch) -> None:
    """A merge brings a content under a second key."""
    patch.setattr(catalog_merge, "find_shared", lambda *_: [])


def namespaces_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A merge may leave keys without their namespaces."""
    patch.setattr(catalog_merge, "_check_namespaces", lambda *_: None)


def merges_bring_back_what_they_took(patch: pytest.MonkeyPatch) -> None:
    """A replay carries what a merge commit took from the target."""
    patch.setattr(kernel_merge, "_not_taken_from", lambda _context, _merged, changes: changes)


def reverts_forget_removals(patch: pytest.MonkeyPatch) -> None:
    """A revert does not bring back what a commit removed."""

    def own(commits: Any, nodes: Any, commit: Any) -> Any:
        return [one for one in own_changes(commits, nodes, commit) if one.right is not None]

    real = kernel_merge.reverted

    def reverted(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(kernel_merge, "own_changes", own)
            return real(*given)

    patch.setattr("lochan.service.merges.reverted", reverted)


def merges_without_their_source(patch: pytest.MonkeyPatch) -> None:
    """A merge does not record that it has brought its source."""
    real = kernel_merge.carry

    def carry(*given: Any) -> Any:
        return [msgspec.structs.replace(one, merged=()) for one in real(*given)]

    patch.setattr(kernel_merge, "carry", carry)


def forward_by_first_parents(patch: pytest.MonkeyPatch) -> None:
    """A fast-forward takes a branch whose commits were merged for one that lacks them."""

    def has(commits: Any, head: Any, wanted: Any) -> bool:
        return is_ancestor(commits, wanted, head)

    patch.setattr(head_moves, "has_merged", has)


MUTANTS: list[Patch] = [
    from_first_to_last,
    gaps_are_closed,
    expected_at_every_change,
    contents_under_two_keys,
    namespaces_are_not_checked,
    merges_bring_back_what_they_took,
    reverts_forget_removals,
    merges_without_their_source,
    forward_by_first_parents,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__)
def test_the_walks_find(mutant: Patch, monkeypatch: pytest.MonkeyPatch, record_property):
    mutant(monkeypatch)
    for seed in range(WALKS):
        steps = [seed * 1_000_000 + at for at in range(STEPS)]
        if fails(lambda: embedded("memory:"), steps) is not None:
            record_property("counted", f"history, {mutant.__name__}: found in walk {seed + 1}")
            return
    pytest.fail(f"{mutant.__name__} was not found in {WALKS * STEPS} steps")
