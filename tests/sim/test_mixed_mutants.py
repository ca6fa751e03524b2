"""Planted faults in what proposals of a chain read, merge and answer; the explorer must find each.

A mutant is patched into the real code; the scenarios named beside it must notice it within 500
schedules. A scenario that does not notice its mutant would prove nothing.

Not planted, because no check could see it: an expected hash that is looked for below the chain (a
client cannot name a commit that is not published), and a wrong read-ahead (it only loads nodes).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from lochan.catalog import merge as catalog_merge
from lochan.catalog.commit import CatalogCommit
from lochan.catalog.identities import find_shared
from lochan.catalog.merge import CatalogMerge
from lochan.kernel import head_moves, merge, publish_many
from lochan.kernel.build import Builder, Head
from lochan.kernel.changes import diff_commits
from lochan.kernel.history import iterate_log, meeting, merge_base, shared_sequence
from lochan.kernel.merge import Carried, MergeProposal
from lochan.kernel.merge_choices import Choices
from lochan.kernel.plan import ANY
from lochan.kernel.reach import LineReach
from lochan.kernel.views import CommitOverlay
from lochan.kv.store import Lost
from lochan.service import merges
from tests.sim.mixed_scenarios import (
    AGAIN,
    CATALOG_MOVES,
    CATALOG_ONE,
    CATALOG_TWO,
    MOVES,
    ONE_SERVER,
    SCENARIOS,
    STATEMENT,
    STATEMENTS,
    TWO_SERVERS,
)
from tests.sim.mutants import find_violation

SCHEDULES_MAX = 500
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

Patch = Callable[[pytest.MonkeyPatch], None]


def below(head: Head) -> Head:
    """The published head under a chain, to read from by mistake."""
    return Head(head.builder.base, head.builder, head.row)


def base_is_that_of_the_published_head(patch: pytest.MonkeyPatch) -> None:
    """As it was: the second merge of a chain does not know of the first."""
    plan = MergeProposal.plan
    planned: list[Head] = []

    def note(self, head):
        # What a replay carries is looked for apart, by the mutant after the next.
        planned[:] = [] if self._replay else [head]
        return plan(self, head)

    def base(commits, left, other):
        is_target = bool(planned) and left is planned[0].view
        return merge_base(commits, planned[0].builder.base if is_target else left, other)

    patch.setattr(MergeProposal, "plan", note)
    patch.setattr(merge, "merge_base", base)
    patch.setattr(LineReach, "merge_base", lambda _, *more: base(*more))


def base_is_where_the_lines_meet(patch: pytest.MonkeyPatch) -> None:
    """Merges in between do not count."""
    plan = MergeProposal.plan
    replays: list[bool] = []

    def note(self, head):
        replays[:] = [self._replay]
        return plan(self, head)

    def base(*more):
        return merge_base(*more) if replays[0] else meeting(*more)

    patch.setattr(MergeProposal, "plan", note)
    patch.setattr(merge, "merge_base", base)
    patch.setattr(LineReach, "merge_base", lambda _, *more: base(*more))


def replays_what_the_published_head_lacks(patch: pytest.MonkeyPatch) -> None:
    plan = MergeProposal._replayed
    planned: list[Head] = []

    def note(self, head):
        planned[:] = [head]
        return plan(self, head)

    patch.setattr(MergeProposal, "_replayed", note)
    patch.setattr(
        merge,
        "shared_sequence",
        lambda commits, line, _: shared_sequence(commits, line, planned[0].builder.base),
    )


def replays_carry_back_what_the_chain_has(patch: pytest.MonkeyPatch) -> None:
    """What a merge took from the target is looked for below the chain."""
    right = merge.replayed

    def replayed(context, line, target=None, **more):
        return right(context, line, None if target is None else below(target), **more)

    patch.setattr(merge, "replayed", replayed)


def replays_do_not_record_their_source(patch: pytest.MonkeyPatch) -> None:
    right = MergeProposal._replayed

    def replayed(self, head):
        return [msgspec.structs.replace(one, merged=()) for one in right(self, head)]

    patch.setattr(MergeProposal, "_replayed", replayed)


def changes_are_carried_onto_the_published_head(patch: pytest.MonkeyPatch) -> None:
    right = merge.carry
    patch.setattr(merge, "carry", lambda head, *more: right(below(head), *more))


def commits_of_the_chain_are_not_at_hand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitOverlay, "add", lambda *_: None)


def claims_are_looked_for_below_the_chain(patch: pytest.MonkeyPatch) -> None:
    def line(self):
        return iterate_log(self.commits, self.builder.base.obj_id)

    patch.setattr(Head, "line", line)


def undone_commits_may_be_of_any_branch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Builder, "stands_on", lambda *_: True)


def merges_are_planned_once(patch: pytest.MonkeyPatch) -> None:
    """After a lost swap the same operations are tried again, whatever is there by then."""
    right = MergeProposal.plan

    def plan(self, head):
        if not hasattr(self, "planned"):
            self.planned = [
                msgspec.structs.replace(
                    one,
                    operations=[msgspec.structs.replace(op, expected=ANY) for op in one.operations],
                )
                for one in right(self, head)
            ]
        return self.planned

    patch.setattr(MergeProposal, "plan", plan)


def rebases_carry_back_what_they_merged(patch: pytest.MonkeyPatch) -> None:
    right = merge.replayed

    def replayed(context, line, _, **more):
        return right(context, line, None, **more)

    patch.setattr(head_moves, "replayed", replayed)


def chains_forget_what_they_touched(patch: pytest.MonkeyPatch) -> None:
    """A commit on an older hash does not notice what the chain before it has changed."""
    right = Builder.build

    def build(self, head, plan):
        built = right(self, head, plan)
        self._touched.clear()
        return built

    patch.setattr(Builder, "build", build)


def commits_look_at_the_published_head(patch: pytest.MonkeyPatch) -> None:
    right = CatalogCommit._look

    def look(self, head):
        return right(self, below(head))

    patch.setattr(CatalogCommit, "_look", look)


def squash_is_the_difference_of_the_ends(patch: pytest.MonkeyPatch) -> None:
    """As it was: from the first commit's parent to the last commit, whatever lies between."""

    def squashed(context, line, message, headers, hidden):
        first = context.views.load(line[0].parent)
        changes = list(diff_commits(context.nodes, first, line[-1]))
        return Carried(
            changes=changes,
            message=message,
            headers=headers,
            hidden=hidden,
            bases=(first,),
            state=line[-1],
        )

    patch.setattr(merge, "squashed", squashed)
    patch.setattr(merges, "squashed", squashed)


def wrong_expectations_of_a_namespace_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """As it was: where both sides made it, neither what is expected nor what is resolved counts."""
    right = merge._Target._take_one

    def take_one(self, change):
        target = self._current[change.key]
        if target != change.left and self._choices.keeps_target(change, target):
            return None
        return right(self, change)

    patch.setattr(merge._Target, "_take_one", take_one)


def resolved_contents_are_dropped(patch: pytest.MonkeyPatch) -> None:
    right = Choices.of

    def of(self, key):
        return msgspec.structs.replace(right(self, key), has_resolved=False)

    patch.setattr(Choices, "of", of)


def expected_targets_hold_for_every_change(patch: pytest.MonkeyPatch) -> None:
    """As it was: a replay that changes a key twice met its own first change."""

    class Nothing(set[bytes]):
        def __contains__(self, _: object) -> bool:
            return False

    right = merge._Target.__init__

    def begin(self, current, choices):
        right(self, current, choices)
        self._begun = Nothing()

    patch.setattr(merge._Target, "__init__", begin)


def renames_of_both_sides_stay(patch: pytest.MonkeyPatch) -> None:
    """As it was: one content under two keys."""
    patch.setattr(catalog_merge, "find_shared", lambda *_: [])


def shared_contents_are_looked_for_below_the_chain(patch: pytest.MonkeyPatch) -> None:
    def look(context, types, head, *more):
        return find_shared(context, types, below(head), *more)

    patch.setattr(catalog_merge, "find_shared", look)


def namespaces_are_looked_for_below_the_chain(patch: pytest.MonkeyPatch) -> None:
    right = catalog_merge._check_namespaces

    def look(head, *more):
        return right(below(head), *more)

    patch.setattr(catalog_merge, "_check_namespaces", look)


def expected_hashes_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(catalog_merge, "check_stands_on", lambda *_: None)


def merges_report_the_published_head(patch: pytest.MonkeyPatch) -> None:
    right = CatalogMerge.plan

    def plan(self, head):
        plans = right(self, head)
        self.target = head.builder.base
        return plans

    patch.setattr(CatalogMerge, "plan", plan)


def statements_of_unknown_outcome_count_as_lost(patch: pytest.MonkeyPatch) -> None:
    right = publish_many._written

    def written(jobs, batch):
        return [one or Lost(None) for one in right(jobs, batch)]

    patch.setattr(publish_many, "_written", written)


def statements_have_one_outcome(patch: pytest.MonkeyPatch) -> None:
    """One branch is won, so all are."""
    right = publish_many._written

    def written(jobs, batch):
        outcomes = right(jobs, batch)
        return [outcomes[0]] * len(outcomes)

    patch.setattr(publish_many, "_written", written)


def lanes_remember_what_a_later_head_has(patch: pytest.MonkeyPatch) -> None:
    """A head that was moved back is taken for the one that it was."""
    right = LineReach._extend

    def extend(self, commits, head, shared):
        if self._top is None or self._start.sequence > shared.sequence:
            return right(self, commits, head, shared)
        return True

    patch.setattr(LineReach, "_extend", extend)


MUTANTS: dict[Patch, str] = {
    base_is_that_of_the_published_head: AGAIN,
    base_is_where_the_lines_meet: AGAIN,
    lanes_remember_what_a_later_head_has: AGAIN,
    replays_what_the_published_head_lacks: AGAIN,
    replays_carry_back_what_the_chain_has: ONE_SERVER,
    replays_do_not_record_their_source: AGAIN,
    changes_are_carried_onto_the_published_head: ONE_SERVER,
    commits_of_the_chain_are_not_at_hand: ONE_SERVER,
    claims_are_looked_for_below_the_chain: ONE_SERVER,
    undone_commits_may_be_of_any_branch: MOVES,
    merges_are_planned_once: TWO_SERVERS,
    rebases_carry_back_what_they_merged: MOVES,
    chains_forget_what_they_touched: CATALOG_ONE,
    commits_look_at_the_published_head: CATALOG_ONE,
    squash_is_the_difference_of_the_ends: ONE_SERVER,
    wrong_expectations_of_a_namespace_are_accepted: CATALOG_ONE,
    resolved_contents_are_dropped: ONE_SERVER,
    expected_targets_hold_for_every_change: ONE_SERVER,
    renames_of_both_sides_stay: CATALOG_TWO,
    shared_contents_are_looked_for_below_the_chain: CATALOG_ONE,
    namespaces_are_looked_for_below_the_chain: CATALOG_ONE,
    expected_hashes_are_not_looked_for: CATALOG_MOVES,
    merges_report_the_published_head: CATALOG_ONE,
    statements_of_unknown_outcome_count_as_lost: STATEMENT,
    statements_have_one_outcome: STATEMENTS,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_explorer_finds(
    mutant: Patch,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    mutant(monkeypatch)
    found = find_violation([BY_NAME[MUTANTS[mutant]]], SCHEDULES_MAX)
    record_property(
        "counted", f"mutant {mutant.__name__}: schedule {found.seed} of {found.scenario}"
    )
