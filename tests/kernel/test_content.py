"""Everything that a branch holds equals a plain dictionary, over spills and re-openings (K7)."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.keys import Universe
from lochan.kernel.plan import Operation
from tests.kernel.workbench import (
    Bench,
    Wants,
    element,
    file_element,
    path,
    plan,
    put,
    table,
)

COMMITS = 1_000


def some_operations(random: Random, model: dict[bytes, bytes], names: int) -> list[Operation]:
    chosen = {}
    for _ in range(random.choice([1, 1, 2, 5, 12])):
        number = random.randrange(names)
        key = random.choice([table, table, path])(number)
        there = model.get(key)
        new = element(random.randrange(10**9), content=number)
        if key[0] == Universe.FILES:
            new = file_element(random.randrange(10**9))
        removes = there is not None and random.random() < 0.3
        chosen[key] = put(key, None if removes else new, there)
    return list(chosen.values())


def check_whole(bench: Bench, model: dict[bytes, bytes]) -> None:
    head = bench.head()
    found = {**bench.content(head, Universe.TABLES), **bench.content(head, Universe.FILES)}
    assert found == model


@pytest.mark.parametrize(("seed", "names"), [(1, 150), (2, 600), (3, 5_000)])
def test_the_content_equals_a_dictionary_after_every_fifty_commits(seed, names):
    random, model = Random(seed), {}
    bench = Bench(seed=seed)
    roots = set()
    made = 0
    while made < COMMITS:
        chain = []
        for _ in range(random.randrange(1, 6)):
            ops = some_operations(random, model, names)
            chain.append(Wants(plan(ops, f"{made + len(chain)}")))
            for op in ops:
                if op.element is None:
                    del model[op.key]
                else:
                    model[op.key] = op.element
        bench.commit(*chain)
        before, made = made, made + len(chain)
        roots |= {one.root for one in bench.head().body.indexes}  # type: ignore[union-attr]
        if before // 50 != made // 50:
            check_whole(bench, model)
        if random.random() < 0.05:
            bench = bench.again(seed=random.randrange(10**6))
            check_whole(bench, model)
    check_whole(bench.again(), model)
    assert len(roots) > 10, "the indexes spilled often"
    assert len(bench.log()) == made


def test_every_commit_of_the_past_still_holds_what_it_held():
    random, model = Random(9), {}
    bench = Bench()
    past = []
    for number in range(150):
        ops = some_operations(random, model, 200)
        for op in ops:
            if op.element is None:
                del model[op.key]
            else:
                model[op.key] = op.element
        (made,) = bench.commit(Wants(plan(ops, f"{number}")))
        past.append((made.head.obj_id, dict(model)))
    again = bench.again()
    for obj_id, content in random.sample(past, 40):
        view = again.context.views.get_named(obj_id)
        found = {**again.content(view, Universe.TABLES), **again.content(view, Universe.FILES)}
        assert found == content
