"""Random users of two servers, one after the other, held against plain dictionaries."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Conflict, Invalid
from lochan.model.commits import CommitMeta, ContentKey, Delete, Operation, Put, Unchanged
from lochan.model.contents import Content, Namespace
from lochan.model.requests import (
    MergeRequest,
    MoveRequest,
    RebaseRequest,
    RevertRequest,
    TransplantRequest,
)
from lochan.model.specs import parse_spec
from tests.profile import counted
from tests.service.bench import ME, Bench, moved, optional_spec, table

WALKS = counted(4, 40)
STEPS = 120

SPACES: list[ContentKey] = [("n",), ("n", "m"), ("o",)]
PLACES: list[ContentKey] = [("n",), ("n", "m"), ("o",), ()]
BEHAVIOURS = ("NORMAL", "NORMAL", "FORCE", "DROP", "TAKE_TARGET_ON_CONFLICT")

State = dict[ContentKey, Content]


def is_valid(state: State) -> bool:
    return all(
        isinstance(state.get(key[:length]), Namespace)
        for key in state
        for length in range(1, len(key))
    )


class Walk:
    """Two servers on one store, three branches, and what the model knows of every commit."""

    def __init__(self, seed: int) -> None:
        self.pick = Random(seed)
        first = Bench(seed=seed)
        self.desks = [first, first.again(seed=seed + 1_000)]
        self.known: dict[str, State] = {}
        self.count = 0
        self.refusals = 0
        first.commit(*[self.new(key) for key in SPACES])
        self.look("main")
        for name in ("one", "two"):
            first.branch(name)
        self.branches = ("main", "one", "two")

    @property
    def bench(self) -> Bench:
        return self.pick.choice(self.desks)

    def new(self, key: ContentKey) -> Put:
        self.count += 1
        if key in SPACES:
            return Put(key=key, content=Namespace(elements=key, properties={"n": str(self.count)}))
        return Put(key=key, content=table(f"t{self.count}"))

    def look(self, spec: str) -> State:
        """Reads a commit whole, and every commit before it that was not seen yet."""
        bench = self.bench
        entries = []
        for entry in bench.history.log(ME, parse_spec(spec), fetch_all=True).items:
            if entry.meta.hash in self.known:
                break
            entries.append(entry)
        for entry in reversed(entries):
            state = dict(self.known.get(entry.parent, {}))
            for one in entry.operations or ():
                if isinstance(one, Put):
                    state[one.key] = one.content
                else:
                    del state[one.key]
            assert is_valid(state), f"{entry.meta.message} left a key without its namespace"
            self.known[entry.meta.hash or ""] = state
        page = bench.contents.entries(ME, parse_spec(spec), with_content=True)
        found = {entry.key: entry.content for entry in page.items if entry.content is not None}
        assert page.reference is not None
        assert found == self.known[page.reference.hash]
        return found

    def commit(self) -> None:
        branch = self.pick.choice(self.branches)
        bench = self.bench
        line = [
            entry.meta.hash or "" for entry in bench.history.log(ME, parse_spec(branch), 6).items
        ]
        expected = self.pick.choice([line[0], self.pick.choice(line), None])
        before = self.known[expected or line[0]]
        does = self.operations(before)
        wanted = predicted(before, self.known[line[0]], does, names_commit=expected is not None)
        meta = CommitMeta(message=f"commit {self.count}")
        if wanted is None:
            with pytest.raises((Conflict, Invalid)):
                bench.run(bench.commits.commit(ME, branch, optional_spec(expected), meta, does))
            assert bench.head(branch) == line[0]
            self.refusals += 1
            return
        done = bench.run(bench.commits.commit(ME, branch, optional_spec(expected), meta, does))
        ids = {one.key: one.content_id for one in done.added}
        found = self.look(branch)
        assert set(found) == set(wanted)
        for key, content in wanted.items():
            there = found[key]
            assert content.id in (None, there.id)
            assert content.id is not None or there.id == ids[key]

    def operations(self, before: State) -> list[Operation]:
        does: dict[ContentKey, Operation] = {}
        for _ in range(self.pick.randint(1, 3)):
            place = self.pick.choice(PLACES)
            key = (*place, self.pick.choice("abc"))
            if self.pick.random() < 0.15:
                key = self.pick.choice(SPACES)
            there = before.get(key)
            kind = self.pick.choice(("put", "put", "put", "delete", "rely", "rename"))
            if key in does:
                continue
            if kind == "put" and (there is None or isinstance(there, Namespace)):
                does[key] = self.new(key)
            elif kind == "put" and there is not None:
                self.count += 1
                does[key] = Put(key=key, content=moved(there, f"t{self.count}"))
            elif kind == "rely":
                does[key] = Unchanged(key=key)
            elif kind == "rename" and there is not None and not isinstance(there, Namespace):
                other = (*self.pick.choice(PLACES), "r")
                if other not in does and other != key:
                    does[key] = Delete(key=key)
                    does[other] = Put(key=other, content=there)
            else:
                does[key] = Delete(key=key)
        return list(does.values())

    def merge(self) -> None:
        source, target = self.pick.sample(self.branches, 2)
        bench = self.bench
        before, theirs = self.look(target), self.look(source)
        default = self.pick.choice(BEHAVIOURS)
        squash = self.pick.random() < 0.6
        ask = MergeRequest(
            branch=target,
            expected=None,
            source=parse_spec(source),
            default=default,
            squash=squash,
            conflicts_as_result=True,
        )
        done = bench.run(bench.merges.merge(ME, ask))
        after = self.look(target)
        if not done.successful:
            self.refusals += 1
            assert after == before
        if squash:
            assert done.common_ancestor is not None
            base = self.known.get(done.common_ancestor, {})
            wanted = merged(base, theirs, before, default)
            assert done.successful == (wanted is not None)
            assert after == (before if wanted is None else wanted)

    def others(self) -> None:
        """What is held against the rules of namespaces alone."""
        branch, other = self.pick.sample(self.branches, 2)
        bench = self.bench
        line = [
            entry.meta.hash or "" for entry in bench.history.log(ME, parse_spec(branch), 4).items
        ]
        aside = bench.history.log(ME, parse_spec(other), 4).items
        picked = (self.pick.choice(aside).meta.hash or "",)
        carry = TransplantRequest(
            branch=branch, expected=None, source="", hashes=tuple(map(parse_spec, picked))
        )
        revert = RevertRequest(
            branch=branch, expected=None, hashes=(parse_spec(self.pick.choice(line)),)
        )
        before, unmoved = bench.head(branch), False
        try:
            match self.pick.randrange(9) // 2:
                case 0:
                    bench.run(bench.merges.cherry_pick(ME, carry))
                case 1:
                    bench.run(bench.merges.revert(ME, revert))
                case 2:
                    bench.merges.rebase(ME, RebaseRequest(branch=branch, onto=parse_spec(other)))
                case 3:
                    bench.merges.fast_forward(
                        ME, MoveRequest(branch=branch, source=parse_spec(other))
                    )
                case _:
                    bench.references.assign(
                        ME, branch, parse_spec(before), parse_spec(self.pick.choice(line))
                    )
        except Conflict:
            self.refusals += 1
            unmoved = True
        assert not unmoved or bench.head(branch) == before
        self.look(branch)


def predicted(
    before: State, now: State, does: list[Operation], *, names_commit: bool
) -> State | None:
    """What a commit leaves, by the rules in plain form; None if it is refused."""
    after = dict(now)
    for one in does:
        old = before.get(one.key)
        is_new = isinstance(one, Put) and one.content.id is None
        renamed = isinstance(one, Put) and not is_new and old is None
        if is_new or renamed:
            if old is not None or one.key in now:
                return None
        elif now.get(one.key) != old:
            return None
        elif old is None:
            if not isinstance(one, Unchanged):
                return None
        elif isinstance(one, Put):
            if not names_commit or one.content.id != old.id:
                return None
        if isinstance(one, Put):
            after[one.key] = one.content
        elif isinstance(one, Delete):
            del after[one.key]
    return after if is_valid(after) else None


def merged(base: State, source: State, target: State, behaviour: str) -> State | None:
    """What a squashing merge leaves; None if it is refused."""
    after = dict(target)
    for key in {*base, *source}:
        old, new, there = base.get(key), source.get(key), target.get(key)
        if old == new or there == new or behaviour == "DROP":
            continue
        if there != old:
            both = old is None and isinstance(new, Namespace) and isinstance(there, Namespace)
            if behaviour == "TAKE_TARGET_ON_CONFLICT" or (both and behaviour == "NORMAL"):
                continue
            if behaviour == "NORMAL":
                return None
        if new is None:
            after.pop(key, None)
        else:
            after[key] = new
    return after if is_valid(after) else None


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_repository_agrees_with_dictionaries(seed):
    walk = Walk(seed)
    for _ in range(STEPS):
        act = walk.pick.choice((walk.commit, walk.commit, walk.commit, walk.merge, walk.others))
        act()
    assert walk.refusals > STEPS / 20
    assert len(walk.known) > STEPS / 10
