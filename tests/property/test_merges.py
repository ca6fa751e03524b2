"""Merge, transplant and revert against plain dictionaries: squash = target + diff(base, source)."""

from __future__ import annotations

import pytest

from lochan.base.errors import Invalid, KeysConflict
from lochan.base.keys import table_key
from lochan.kernel.changes import line_between
from lochan.kernel.history import merge_base
from lochan.kernel.merge import CarryProposal, MergeProposal, replayed, reverted, squashed
from lochan.kernel.merge_choices import Behaviour, Choices, KeyChoice, MergeConflict
from tests.profile import counted
from tests.property.merge_world import EMPTY, Content, MergeWorld

RUNS = counted(6, 60)
SPACE = 60


def parted(seed: int) -> tuple[MergeWorld, Content]:
    """Two branches with some commits each since they parted, and what they shared then."""
    world = MergeWorld(seed)
    for _ in range(world.pick.randrange(4)):
        world.edit("main", world.keys(world.pick.randrange(1, 30), SPACE))
    shared = dict(world.content["main"])
    world.branch("side", "main")
    for name in ("main", "side"):
        for _ in range(world.pick.randrange(1, 5)):
            world.edit(name, world.keys(world.pick.randrange(1, 8), SPACE))
    return world, shared


def merged_by_hand(shared: Content, source: Content, target: Content) -> tuple[Content, set[bytes]]:
    """What the merge must give, and the keys that are in conflict."""
    result, conflicts = dict(target), set()
    for key in {*shared, *source}:
        before, after, now = shared.get(key), source.get(key), target.get(key)
        if before == after or now == after:
            continue
        if now != before:
            conflicts.add(key)
        elif after is None:
            del result[key]
        else:
            result[key] = after
    return result, conflicts


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_squashing_merge_brings_what_the_source_changed_or_tells_every_conflict(seed):
    world, shared = parted(seed)
    source, before = world.head("side"), world.head("main")
    wanted, conflicts = merged_by_hand(shared, world.content["side"], world.content["main"])
    proposal = MergeProposal(world.context, source, "merge", Choices())
    if conflicts:
        with pytest.raises(KeysConflict) as caught:
            world.publish("main", proposal)
        reported = {
            detail.key for detail in caught.value.details if isinstance(detail, MergeConflict)
        }
        assert reported == conflicts
        assert world.head("main").obj_id == before.obj_id
        choices = Choices(default=Behaviour.FORCE)
        proposal = MergeProposal(world.context, source, "merge", choices)
        for key in conflicts:
            after = world.content["side"].get(key)
            if after is None:
                wanted.pop(key, None)
            else:
                wanted[key] = after
    published = world.publish("main", proposal)
    world.content["main"] = wanted
    world.check("main")
    if published.commits:
        body = published.head.body
        assert body is not None
        assert body.parents == (before.obj_id, source.obj_id)
        again = world.publish("main", MergeProposal(world.context, source, "again", Choices()))
        assert again.commits == ()
        base = merge_base(world.context.views, world.head("main"), source)
        assert base is not None
        assert base.obj_id == source.obj_id


@pytest.mark.parametrize("seed", range(RUNS))
def test_keys_dropped_or_left_to_the_target_stay_as_they_are(seed):
    world, shared = parted(seed)
    wanted, conflicts = merged_by_hand(shared, world.content["side"], world.content["main"])
    choices = Choices(default=Behaviour.TAKE_TARGET_ON_CONFLICT)
    world.publish("main", MergeProposal(world.context, world.head("side"), "merge", choices))
    world.content["main"] = wanted
    world.check("main")
    assert conflicts.isdisjoint(
        {key for key in wanted if wanted[key] == world.content["side"].get(key)}
    )


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_replaying_merge_ends_where_a_squashing_one_does(seed):
    world, shared = parted(seed)
    source = world.head("side")
    base = merge_base(world.context.views, world.head("main"), source)
    line = line_between(world.context.views, EMPTY if base is None else base.obj_id, source)
    wanted, conflicts = merged_by_hand(shared, world.content["side"], world.content["main"])
    proposal = MergeProposal(world.context, source, "merge", Choices(), replay=True)
    if _met_on_the_way(world, line):
        before = world.head("main").obj_id
        with pytest.raises(KeysConflict):
            world.publish("main", proposal)
        assert world.head("main").obj_id == before
        return
    assert not conflicts
    published = world.publish("main", proposal)
    world.content["main"] = wanted
    world.check("main")
    assert len(published.commits) <= max(1, len(line))


def _met_on_the_way(world: MergeWorld, line: list) -> bool:
    """Whether a single commit of the line, if not their sum, meets a change of the target."""
    target = world.content["main"]
    current = dict(target)
    for one in replayed(world.context, line):
        for change in one.changes:
            now = current.get(change.key)
            if now not in (change.left, change.right):
                return True
            if change.right is None:
                current.pop(change.key, None)
            else:
                current[change.key] = change.right
    return False


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_revert_undoes_a_commit_and_only_that(seed):
    world = MergeWorld(seed)
    world.edit("main", world.keys(20, SPACE))
    before = dict(world.content["main"])
    done = world.edit("main", world.keys(5, SPACE))
    world.publish(
        "main", CarryProposal([reverted(world.context, done.head, "undo")], Choices(), None)
    )
    world.content["main"] = before
    world.check("main")


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_commits_are_transplanted_one_by_one_or_as_one_that_lists_them(seed, squash):
    world = MergeWorld(seed)
    world.edit("main", world.keys(10, SPACE))
    world.branch("side", "main")
    start = world.head("side").obj_id
    for _ in range(3):
        world.edit("side", world.keys(4, SPACE))
    line = line_between(world.context.views, start, world.head("side"))
    if squash:
        carried = [squashed(world.context, line, "all of it", (), ())]
    else:
        carried = replayed(world.context, line)
    published = world.publish("main", CarryProposal(carried, Choices(), None))
    world.content["main"] = dict(world.content["side"])
    world.check("main")
    body = published.head.body
    assert body is not None
    if squash:
        assert len(published.commits) == 1
        assert all(commit.obj_id.hex() in body.message for commit in line)
    else:
        assert len(published.commits) <= 3


def test_resolved_content_replaces_what_both_sides_did():
    world = MergeWorld(1)
    key = bytes(table_key(["ns", "both"]))
    world.put("main", key, 1)
    world.branch("side", "main")
    world.put("main", key, 2)
    world.put("side", key, 3)
    source = world.head("side")
    with pytest.raises(KeysConflict):
        world.publish("main", MergeProposal(world.context, source, "m", Choices()))
    resolved = world.element(key, 999)
    seen = KeyChoice(
        expected_target=world.content["main"][key],
        has_expected_target=True,
        resolved=resolved,
        has_resolved=True,
    )
    world.publish("main", MergeProposal(world.context, source, "m", Choices(keys={key: seen})))
    world.content["main"][key] = resolved
    world.check("main")


def test_a_choice_for_a_key_that_the_source_did_not_touch_is_refused():
    world, _ = parted(3)
    choices = Choices(keys={b"tnobody": KeyChoice(Behaviour.DROP)})
    with pytest.raises(Invalid):
        world.publish("main", MergeProposal(world.context, world.head("side"), "m", choices))


def test_resolving_without_having_seen_the_target_is_refused():
    world, _ = parted(3)
    blind = KeyChoice(resolved=b"\0x", has_resolved=True)
    with pytest.raises(Invalid):
        MergeProposal(world.context, world.head("side"), "m", Choices(keys={b"tx": blind}))


def test_a_dry_run_answers_and_writes_nothing():
    world, _ = parted(5)
    before = world.head("main").obj_id
    proposal = MergeProposal(world.context, world.head("side"), "m", Choices(Behaviour.FORCE))
    (answer,) = world.publishers["main"].preview([proposal])
    assert world.head("main").obj_id == before
    (done,) = world.publishers["main"].publish([proposal])
    assert type(answer) is type(done)
