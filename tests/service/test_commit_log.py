"""Logs by all parents: every commit once, after its children, and only what a caller may read."""

from __future__ import annotations

import random

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Call
from lochan.base.errors import Invalid, ReferenceNotFound
from lochan.base.ids import EMPTY_ID
from lochan.kernel.repository import Ports
from lochan.model.commits import CommitMeta
from lochan.model.requests import MergeRequest, NewReference
from lochan.model.specs import ReferenceSpec
from lochan.service.repositories import Repositories
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock, RecordedWaiting, SeededRandom
from tests.profile import counted
from tests.security.guarded_wire import allow, principal

ADMIN = Call("ada", rights=principal("ada", [allow("*")]).rights)
READER = Call("bob", rights=principal("bob", [allow("read", references=("main",))]).rights)


class World:
    """A repository with a random history of commits and merges."""

    def __init__(self, seed: int, steps: int = 25) -> None:
        clock = ManualClock()
        ports = Ports(clock, SeededRandom(seed), RecordedWaiting(clock))
        self.repository = Repositories(MemoryStore(), ports, policy=EnforcedPolicy()).create(
            ADMIN, "default"
        )
        self.parents: dict[str, tuple[str, ...]] = {}
        chooser = random.Random(seed)
        branches = ["main"]
        for step in range(steps):
            clock.advance_us(chooser.choice([0, 1_000_000]))
            branch, other = chooser.choice(branches), chooser.choice(branches)
            if step % 7 == 3:
                branches.append(f"b{step}")
                new = NewReference(name=branches[-1], source=ReferenceSpec(other))
                self._run(self.repository.references.create(ADMIN, new))
            elif chooser.random() < 0.4 and branch != other:
                self._merge(branch, other)
            else:
                self._commit(branch, f"f{step}")

    def head(self, branch: str = "main") -> str:
        return self.repository.references.get(ADMIN, branch).hash

    def reachable(self, start: str, *, first_only: bool = False) -> set[str]:
        """Returns all ancestors, by a plain walk."""
        found, left = set(), [start]
        while left:
            digits = left.pop()
            if digits not in found:
                found.add(digits)
                parents = self.parents.get(digits, ())
                left += parents[:1] if first_only else parents
        return found | {EMPTY_ID.hex()}

    def _commit(self, branch: str, path: str) -> None:
        with self.repository.uploads.begin(ADMIN, branch, path) as upload:
            upload.write(path.encode())
            upload.finish()
        meta = CommitMeta(message=path)
        before = self.head(branch)
        self._run(self.repository.commits.commit(ADMIN, branch, None, meta, (), staged=True))
        self.parents[self.head(branch)] = (before,)

    def _merge(self, branch: str, other: str) -> None:
        before, source = self.head(branch), self.head(other)
        if source == EMPTY_ID.hex():
            return
        request = MergeRequest(branch=branch, source=ReferenceSpec(other), empty="new")
        merged = self._run(self.repository.merges.merge(ADMIN, request))
        if merged.applied:
            self.parents[self.head(branch)] = (before, source)

    def _run(self, pending):
        (settled,) = self.repository.publisher(pending.branch).publish([pending.proposal])
        return pending.finish(settled)


def pages(world, call, spec, limit, **more):
    found, after = [], ""
    while True:
        page = world.repository.commit_log.page(call, spec, limit, after=after, **more)
        found += [one.meta.hash for one in page.commits]
        if not page.has_more:
            return found
        after = found[-1]


@pytest.mark.parametrize("seed", range(counted(6, 60)))
def test_every_ancestor_is_listed_once_and_after_its_children(seed):
    world = World(seed)
    for branch in ("main", "b3", "b10"):
        spec = ReferenceSpec(branch)
        whole = pages(world, ADMIN, spec, 1_000)
        assert len(whole) == len(set(whole))
        assert set(whole) == world.reachable(world.head(branch))
        places = {digits: at for at, digits in enumerate(whole)}
        for child, parents in world.parents.items():
            if child in places:
                assert all(places[parent] > places[child] for parent in parents)
        for limit in (1, 3):
            assert pages(world, ADMIN, spec, limit) == whole
        line = pages(world, ADMIN, spec, 2, first_parent=True)
        assert set(line) == world.reachable(world.head(branch), first_only=True)


@pytest.mark.parametrize("seed", range(counted(3, 20)))
def test_a_caller_with_rights_on_one_branch_gets_its_line_of_first_parents(seed):
    world = World(seed)
    line = world.reachable(world.head(), first_only=True)
    assert set(pages(world, READER, ReferenceSpec("main"), 3)) == line
    for hidden in set(world.parents) - line:
        with pytest.raises(ReferenceNotFound):
            world.repository.commit_log.page(READER, ReferenceSpec("main"), 5, after=hidden)
        with pytest.raises(ReferenceNotFound):
            world.repository.commit_log.get(READER, ReferenceSpec(None, hidden))
        with pytest.raises(ReferenceNotFound):
            world.repository.commit_log.find_id(READER, hidden[:10])


def test_a_commit_is_found_by_its_first_digits():
    world = World(1)
    log = world.repository.commit_log
    for digits in (*world.parents, EMPTY_ID.hex()):
        for count in (6, 7, 20, 63):
            assert log.find_id(ADMIN, digits[:count]) == digits
    for wrong in ("0" * 10, next(iter(world.parents))[:5]):
        with pytest.raises(ReferenceNotFound):
            log.find_id(ADMIN, wrong)


def test_digits_that_several_commits_begin_with_name_none(monkeypatch):
    world = World(1)
    found = [bytes.fromhex("abcdef" + "0" * 58), bytes.fromhex("abcdef" + "1" * 58)]
    objects = world.repository.context.objects
    monkeypatch.setattr(objects, "find_commit_ids", lambda beginning, limit: found)
    with pytest.raises(Invalid, match="several"):
        world.repository.commit_log.find_id(ADMIN, "abcdef")
