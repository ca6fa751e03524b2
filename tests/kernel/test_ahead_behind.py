"""Ahead and behind, compared with all ancestors of both heads."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.names import RefName
from lochan.kernel.context import RepositoryContext
from lochan.kernel.history import ahead_behind, iterate_log
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Behaviour, Choices
from lochan.kernel.publish import Publisher
from tests.kernel.reading import body_of
from tests.kernel.workbench import Wants, plan, put
from tests.property.merge_world import MergeWorld


def ancestors(context: RepositoryContext, head: ObjId) -> set[ObjId]:
    """All commits reachable by any parent."""
    seen, work = set(), [head]
    while work:
        one = work.pop()
        if one not in seen and one != EMPTY_ID:
            seen.add(one)
            body = body_of(context.views.load(one))
            work += [ObjId(raw) for raw in body.parents]
    return seen


def line(context: RepositoryContext, head: ObjId) -> list[ObjId]:
    return [view.obj_id for view in iterate_log(context.views, head)]


@pytest.mark.parametrize("seed", range(25))
def test_ahead_and_behind_count_what_only_one_line_has(seed):
    world = MergeWorld(seed)
    pick = Random(seed)
    world.edit("main", world.keys(3, 30))
    for name in ("one", "two"):
        world.branch(name, "main")
    names = ["main", "one", "two"]
    for _ in range(15):
        name, source = pick.sample(names, 2)
        if pick.random() < 0.3:
            proposal = MergeProposal(
                world.context, world.head(source), "m", Choices(Behaviour.FORCE)
            )
            Publisher(world.context, RefName(name)).publish([proposal])
        else:
            key = world.keys(1, 30)[0]
            world.publishers[name] = Publisher(world.context, RefName(name))
            value = world.element(key, pick.randrange(10**6))
            world.publish(name, Wants(plan([put(key, value)], "edit")))
        left, right = world.head(name), world.head(source)
        found = ahead_behind(world.context.views, left, right)
        mine, theirs = (line(world.context, one.obj_id) for one in (left, right))
        assert found.ahead == len(set(mine) - ancestors(world.context, right.obj_id))
        assert found.behind == len(set(theirs) - ancestors(world.context, left.obj_id))
