"""Fast-forward, force and rebase: what they do, what they refuse, what they leave behind."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import HeadConflict, Invalid, KeysConflict, TooLarge, Unavailable
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.kernel import head_moves
from lochan.kernel.head_moves import HeadMoves, Source
from lochan.kernel.history import ahead_behind
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Behaviour, Choices
from lochan.kernel.provenance import UNNAMED, Initiator, read_provenance
from lochan.kernel.publish import Publisher
from lochan.kernel.references import NewReferenceRow
from lochan.kernel.reflog import RefLog
from lochan.testing.faults import FaultKind, FaultyStore
from lochan.testing.invariants import check_chain, content_of
from tests.kernel.reading import any_of, body_of, message_of
from tests.kernel.workbench import Bench, Wants, branch, element, nth, plan, put, table, wants
from tests.property.merge_world import MergeWorld

MAIN, SIDE = RefName("main"), RefName("side")


def two_branches(*, ours: int = 2, theirs: int = 3) -> Bench:
    """Main and side parted after one commit."""
    bench = Bench()
    bench.commit(wants(0))
    bench.names.create_many([branch(SIDE, bench.head().obj_id)], UNNAMED)
    bench.commit(*[wants(100 + number) for number in range(ours)])
    Publisher(bench.context, SIDE).publish([wants(200 + number) for number in range(theirs)])
    return bench


def moves_of(bench: Bench) -> HeadMoves:
    return HeadMoves(bench.context, bench.names)


def test_a_fast_forward_goes_to_a_commit_that_has_everything():
    bench = two_branches(ours=0)
    before = bench.head().obj_id
    source = Source(bench.head(SIDE), "side")
    tried = moves_of(bench).fast_forward(MAIN, source, Initiator("me"), dry_run=True)
    assert tried.moved
    assert bench.head().obj_id == before
    result = moves_of(bench).fast_forward(MAIN, source, Initiator("me"))
    assert result.moved
    assert bench.head().obj_id == source.view.obj_id
    entry = RefLog(bench.context).page(MAIN, 1).items[0]
    assert (entry.kind, entry.old) == ("fast-forward", before.hex())
    assert entry.new == source.view.obj_id.hex()
    assert (entry.source, entry.who) == ("side", "me")
    version = bench.row().version
    assert not moves_of(bench).fast_forward(MAIN, source, Initiator("me")).moved
    assert bench.row().version == version


def test_a_fast_forward_is_refused_if_a_commit_would_be_lost():
    bench = two_branches()
    before = bench.row()
    for dry_run in (True, False):
        with pytest.raises(HeadConflict, match="has commits that"):
            moves_of(bench).fast_forward(MAIN, Source(bench.head(SIDE)), UNNAMED, dry_run=dry_run)
    assert bench.row() == before


def test_a_fast_forward_follows_merges():
    bench = two_branches()
    proposal = MergeProposal(bench.context, bench.head(), "merge", Choices())
    Publisher(bench.context, SIDE).publish([proposal])
    assert moves_of(bench).fast_forward(MAIN, Source(bench.head(SIDE)), UNNAMED).moved
    assert bench.head().obj_id == bench.head(SIDE).obj_id


def test_an_empty_branch_is_fast_forwarded_and_rebased_anywhere():
    bench = two_branches()
    bench.names.create_many([branch("bare"), branch("empty")], UNNAMED)
    for act, name in ((moves_of(bench).fast_forward, "bare"), (moves_of(bench).rebase, "empty")):
        assert act(RefName(name), Source(bench.head()), UNNAMED).moved
        assert bench.head(RefName(name)).obj_id == bench.head().obj_id


def test_force_sets_the_branch_and_keeps_the_old_head_in_the_log():
    bench = two_branches()
    before, target = bench.head().obj_id, bench.head(SIDE).obj_id
    assert moves_of(bench).force(MAIN, Source(bench.head(SIDE)), UNNAMED, dry_run=True).moved
    assert bench.head().obj_id == before
    assert moves_of(bench).force(MAIN, Source(bench.head(SIDE), "side"), UNNAMED).moved
    assert bench.head().obj_id == target
    entry = RefLog(bench.context).page(MAIN, 1).items[0]
    assert (entry.kind, entry.old, entry.new) == ("force", before.hex(), target.hex())
    assert entry.base == bench.log()[0].obj_id.hex()
    assert not moves_of(bench).force(MAIN, Source(bench.head(SIDE)), UNNAMED).moved


def test_all_of_them_heed_the_expected_head_and_refuse_tags():
    bench = two_branches()
    bench.names.create_many([NewReferenceRow(RefName("v1"), "TAG", bench.head().obj_id)], UNNAMED)
    moves = moves_of(bench)
    for act in (moves.fast_forward, moves.force, moves.rebase):
        with pytest.raises(HeadConflict, match="points at"):
            act(MAIN, Source(bench.head(SIDE)), UNNAMED, expected=EMPTY_ID)
        with pytest.raises(Invalid, match="not a branch"):
            act(RefName("v1"), Source(bench.head(SIDE)), UNNAMED)


def test_a_rebase_makes_the_branch_own_commits_anew_on_the_other_head():
    bench = two_branches()
    old = bench.log(SIDE)
    onto = bench.head()
    tried = moves_of(bench).rebase(SIDE, Source(onto), Initiator("me"), dry_run=True)
    assert [message_of(view) for view in tried.commits] == ["put 200", "put 201", "put 202"]
    assert bench.head(SIDE).obj_id == old[-1].obj_id
    result = moves_of(bench).rebase(SIDE, Source(onto, "main"), Initiator("me"))
    fresh = bench.again()
    line = fresh.log(SIDE)
    assert [view.obj_id for view in line[:3]] == [view.obj_id for view in bench.log()]
    assert line[3:] == list(result.commits)
    check_chain(fresh.context, line[-1].obj_id)
    provenances = [read_provenance(body_of(view).hidden) for view in line[3:]]
    assert [one.source for one in provenances] == [view.obj_id.hex() for view in old[1:]]
    assert len({one.operation for one in provenances}) == 3
    entry = RefLog(fresh.context).page(SIDE, 1).items[0]
    assert (entry.kind, entry.old) == ("rebase", old[-1].obj_id.hex())
    assert entry.new == line[-1].obj_id.hex()
    assert not moves_of(bench).rebase(SIDE, Source(onto), Initiator("me")).moved


def test_a_rebase_tells_all_conflicts_and_leaves_everything_as_it_was():
    bench = two_branches()
    clash = [Wants(plan([put(table(100 + n), element(7))], f"clash {n}")) for n in range(2)]
    Publisher(bench.context, SIDE).publish(clash)
    before = bench.row(SIDE)
    with pytest.raises(KeysConflict) as caught:
        moves_of(bench).rebase(SIDE, Source(bench.head()), UNNAMED)
    assert [any_of(one).key for one in caught.value.details] == [table(100), table(101)]
    assert bench.row(SIDE) == before
    choices = Choices(Behaviour.FORCE)
    result = moves_of(bench).rebase(SIDE, Source(bench.head()), UNNAMED, choices=choices)
    assert len(result.commits) == 5


def test_commits_that_leave_nothing_to_do_are_skipped():
    bench = two_branches(theirs=0)
    same = Wants(plan([put(table(100), element(100))], "the same as main has"))
    Publisher(bench.context, SIDE).publish([same, wants(300)])
    result = moves_of(bench).rebase(SIDE, Source(bench.head()), UNNAMED)
    assert [message_of(view) for view in result.commits] == ["put 300"]


def test_a_rebase_is_bounded(monkeypatch):
    monkeypatch.setattr(head_moves, "REBASE_COMMITS_MAX", 2)
    bench = two_branches()
    with pytest.raises(TooLarge):
        moves_of(bench).rebase(SIDE, Source(bench.head()), UNNAMED)


@pytest.mark.parametrize("operation", ["set_if", "add_many"])
def test_a_failure_without_effect_leaves_everything_as_it_was(operation):
    bench = two_branches()
    before = bench.row(SIDE)
    hurt = bench.again(FaultyStore(bench.store, nth(operation, 0, FaultKind.NOT_APPLIED)))
    with pytest.raises(Unavailable):
        moves_of(hurt).rebase(SIDE, Source(hurt.head()), Initiator("me"))
    assert bench.row(SIDE) == before


@pytest.mark.parametrize("operation", ["set_if", "add_many"])
def test_a_lost_reply_is_resolved(operation):
    bench = two_branches()
    store = FaultyStore(bench.store, nth(operation, 0, FaultKind.LOST_REPLY))
    hurt = bench.again(store)
    result = moves_of(hurt).rebase(SIDE, Source(hurt.head()), Initiator("me"))
    assert result.moved
    assert bench.again().head(SIDE).obj_id == result.commits[-1].obj_id
    kinds = [one.kind for one in RefLog(bench.context).page(SIDE, 100).items]
    assert kinds.count("rebase") == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_rebase_brings_both_sides_together_whatever_was_merged_before(seed):
    """Keys of the branches are apart, so the result must be all of main and all of side."""
    world = MergeWorld(seed)
    pick = Random(seed)
    world.put("main", bytes(table(0)), 1)
    world.branch("side", "main")
    expected = {}
    for number in range(12):
        name, other = pick.sample(["main", "side"], 2)
        if pick.random() < 0.3:
            proposal = MergeProposal(world.context, world.head(other), "merge", Choices())
            Publisher(world.context, RefName(name)).publish([proposal])
        else:
            key = bytes(table((1_000 if name == "side" else 2_000) + pick.randrange(4)))
            expected[key] = world.element(key, number + 10)
            wanted = Wants(plan([put(key, expected[key])], f"edit {number}"))
            Publisher(world.context, RefName(name)).publish([wanted])
    onto, head = world.head("main"), world.head("side")
    ahead = ahead_behind(world.context.views, head, onto).ahead
    result = HeadMoves(world.context, world.names).rebase(SIDE, Source(onto), UNNAMED)
    found = content_of(world.context, world.head("side"))
    assert {key: found.get(key) for key in expected} == expected
    assert len(result.commits) <= ahead
    check_chain(world.context, ObjId(result.row.pointer))
