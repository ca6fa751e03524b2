"""A repository against a model of plain dictionaries, over 5,000 and more random steps in `deep`.

The model knows branches as dictionaries with a list of operations, and the past of every commit. It
is driven by several servers with memories of their own, some of which lose replies.
"""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import AlreadyExists, HeadConflict, KeysConflict, NotFound
from lochan.base.ids import EMPTY_ID, ObjId
from lochan.base.keys import Universe
from lochan.base.names import RefName
from lochan.kernel.history import ancestor_at, is_ancestor, iterate_log, merge_base
from lochan.kernel.plan import ANY, Operation
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Published, Publisher
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.kernel.workbench import (
    Bench,
    OnCalls,
    Wants,
    branch,
    element,
    file_element,
    operations,
    path,
    plan,
    put,
    table,
)
from tests.profile import counted

WORLDS = counted(2, 8)
STEPS = counted(900, 1_800)
NAMES = [RefName(name) for name in ("main", "dev", "a/b", "a/c", "z")]


class Branch:
    """What a branch is: where it points. Everything else is the past of that commit."""

    def __init__(self, head: ObjId) -> None:
        self.head = head


class World:
    """The model, and the servers that are held against it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.first = Bench(seed=random.randrange(10**9))
        self.servers = [
            self.first,
            self.first.again(seed=2),
            self.first.again(self.lossy(), seed=3),
        ]
        self.publishers: dict[tuple[int, str], Publisher] = {}
        self.branches = {NAMES[0]: Branch(EMPTY_ID)}
        # Every commit ever made: its content, and its line of operations and ids.
        self.content: dict[ObjId, dict[bytes, bytes]] = {EMPTY_ID: {}}
        self.line: dict[ObjId, tuple[ObjId, str]] = {}
        self.incarnations: dict[str, list[int]] = {}
        self.made = 0
        self.seen: dict[str, int] = {}

    def lossy(self) -> FaultyStore:
        """Loses replies of writes now and then, or delays the writes themselves."""

        def choose(call: PlannedCall) -> Fault | None:
            if FaultKind.LOST_REPLY not in call.possible or self.random.random() > 0.2:
                return None
            if call.operation == "put_many" or self.random.random() < 0.5:
                return Fault(FaultKind.LOST_REPLY)
            return Fault(FaultKind.LATE, self.random.randrange(1, 6))

        return FaultyStore(self.first.store, OnCalls(choose))

    def step(self) -> None:
        kinds = ["commit"] * 8 + [
            "create",
            "delete",
            "assign",
            "log",
            "find",
            "page",
            "read",
            "bases",
        ]
        kind = self.random.choice(kinds)
        outcome = getattr(self, kind)()
        name = f"{kind}: {outcome}"
        self.seen[name] = self.seen.get(name, 0) + 1

    def server(self) -> tuple[int, Bench]:
        number = self.random.randrange(len(self.servers))
        if self.random.random() < 0.01:
            self.servers[1] = self.first.again(seed=self.random.randrange(10**9))
            self.publishers = {key: one for key, one in self.publishers.items() if key[0] != 1}
        return number, self.servers[number]

    def commit(self) -> str:
        """A chain of proposals on one branch, each of which may expect the wrong thing."""
        number, bench = self.server()
        name = self.random.choice(NAMES)
        publisher = self.publishers.setdefault((number, name), Publisher(bench.context, name))
        model = self.branches.get(name)
        proposals, expected = [], []
        head = EMPTY_ID if model is None else model.head
        content = dict(self.content[head])
        for _ in range(self.random.choice([1, 1, 1, 2, 6])):
            wish, after = self.some_operations(content)
            self.made += 1
            proposals.append(Wants(plan(wish, f"{self.made}")))
            expected.append((f"{self.made}", after))
            content = content if after is None else after
        if model is None:
            with pytest.raises(NotFound):
                publisher.publish(proposals)
            return "no branch"
        for (operation, after), settled in zip(expected, publisher.publish(proposals), strict=True):
            if after is None:
                assert isinstance(settled, KeysConflict)
                continue
            assert isinstance(settled, Published)
            (view,) = settled.commits
            assert view.parent == model.head
            self.content[view.obj_id] = after
            self.line[view.obj_id] = (model.head, operation)
            model.head = view.obj_id
        return "refused" if any(after is None for _, after in expected) else "done"

    def some_operations(
        self, content: dict[bytes, bytes]
    ) -> tuple[list[Operation], dict[bytes, bytes] | None]:
        """Operations on what is there, and what is there then; None if one expects wrongly."""
        random, after, refused = self.random, dict(content), False
        chosen: dict[bytes, Operation] = {}
        for _ in range(random.choice([1, 1, 2, 4])):
            number = random.randrange(120)
            key = random.choice([table, table, path])(number)
            if key in chosen:
                continue
            there = content.get(key)
            value = random.randrange(10**9)
            new = element(value) if key[0] == Universe.TABLES else file_element(value)
            wanted = None if random.random() < 0.25 else new
            expected = random.choice([there, there, there, ANY])
            if random.random() < 0.04:
                expected = None if there is not None else new
            wrong = expected not in (there, ANY) or (expected is ANY and wanted is there is None)
            refused |= wrong
            chosen[key] = put(key, wanted, expected)
            if wanted is None:
                after.pop(key, None)
            else:
                after[key] = wanted
        return list(chosen.values()), None if refused else after

    def create(self) -> str:
        _, bench = self.server()
        wanted = self.random.sample(NAMES, self.random.choice([1, 1, 2]))
        pointer = self.random.choice(list(self.content))
        news = [branch(name, pointer) for name in wanted]
        if any(name in self.branches for name in wanted):
            with pytest.raises(AlreadyExists):
                bench.names.create_many(news, Initiator("me"))
            return "taken"
        for row in bench.names.create_many(news, Initiator("me")):
            incarnations = self.incarnations.setdefault(row.name, [])
            assert not incarnations or row.incarnation > incarnations[-1]
            incarnations.append(row.incarnation)
            self.branches[RefName(row.name)] = Branch(pointer)
        return "done"

    def delete(self) -> str:
        return self.move(deleting=True)

    def assign(self) -> str:
        return self.move(deleting=False)

    def move(self, *, deleting: bool) -> str:
        _, bench = self.server()
        name = self.random.choice(NAMES)
        model = self.branches.get(name)
        expected = EMPTY_ID if model is None else model.head
        if self.random.random() < 0.2:
            expected = ObjId(bytes(32))
        pointer = self.random.choice(list(self.content))

        def run() -> None:
            if deleting:
                bench.names.delete(name, expected, Initiator("me"))
            else:
                bench.names.assign(name, expected, pointer, Initiator("me"))

        if model is None:
            with pytest.raises(NotFound):
                run()
            return "no branch"
        if expected != model.head:
            with pytest.raises(HeadConflict):
                run()
            return "wrong head"
        run()
        if deleting:
            del self.branches[name]
        else:
            model.head = pointer
        return "done"

    def find(self) -> str:
        _, bench = self.server()
        for name in NAMES:
            found, model = bench.names.find(name), self.branches.get(name)
            assert (None if found is None else found.row.pointer) == (
                None if model is None else model.head
            )
        return "done"

    def page(self) -> str:
        _, bench = self.server()
        limit = self.random.randrange(1, 7)
        start = self.random.choice(["", "a/", "a/c", "main", "n"])
        rows = bench.names.page(start, None, limit)
        expected = sorted(name for name in self.branches if name >= start)[:limit]
        assert [row.name for row in rows] == expected
        return "done"

    def past(self, head: ObjId) -> list[tuple[ObjId, str]]:
        found = []
        while head != EMPTY_ID:
            parent, operation = self.line[head]
            found.append((head, operation))
            head = parent
        return found

    def log(self) -> str:
        _, bench = self.server()
        for model in self.branches.values():
            views = list(iterate_log(bench.context.views, model.head))
            past = self.past(model.head)
            assert [view.obj_id for view in views] == [obj_id for obj_id, _ in past]
            assert operations(views) == [operation for _, operation in past]
        return "done"

    def read(self) -> str:
        """All content of a commit of the past, and some keys of a head."""
        _, bench = self.server()
        chosen = self.random.choice([*self.content, *(one.head for one in self.branches.values())])
        view = bench.context.views.get_named(chosen)
        found = {**bench.content(view, Universe.TABLES), **bench.content(view, Universe.FILES)}
        assert found == self.content[chosen]
        return "done"

    def bases(self) -> str:
        """Ancestors and merge bases; histories here have no merges."""
        _, bench = self.server()
        views = bench.context.views
        one, other = (views.load(self.random.choice(list(self.content))) for _ in range(2))
        mine = [obj_id for obj_id, _ in self.past(one.obj_id)]
        theirs = {obj_id for obj_id, _ in self.past(other.obj_id)}
        expected = next((obj_id for obj_id in mine if obj_id in theirs), None)
        base = merge_base(views, one, other)
        assert (None if base is None else base.obj_id) == expected
        assert is_ancestor(views, other, one) == (other.obj_id in (*mine, EMPTY_ID))
        if mine:
            at = self.random.randrange(len(mine))
            assert ancestor_at(views, one, len(mine) - at) == mine[at]
        return "done" if expected else "nothing shared"


def test_as_many_steps_are_made_as_promised():
    assert WORLDS * STEPS >= counted(1_500, 5_000)


@pytest.mark.parametrize("number", range(WORLDS))
def test_a_repository_agrees_with_dictionaries(number):
    world = World(Random(number))
    for step in range(STEPS):
        try:
            world.step()
        except BaseException as error:
            error.add_note(f"world {number}, step {step}")
            raise
    for check in (world.find, world.log, world.page):
        check()
    kinds = {
        "commit: done",
        "commit: refused",
        "commit: no branch",
        "create: taken",
        "create: done",
    }
    kinds |= {"delete: done", "delete: wrong head", "assign: done", "assign: no branch"}
    assert kinds <= set(world.seen)
    assert len(world.line) > STEPS // 4
