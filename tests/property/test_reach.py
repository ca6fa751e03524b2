"""What a lane remembers of merges: its bases are those of a search, whatever was asked before."""

from __future__ import annotations

from random import Random

from lochan.base.ids import EMPTY_ID, ObjId
from lochan.kernel.history import merge_base
from lochan.kernel.reach import LineReach
from lochan.kernel.views import CommitView
from tests import profile
from tests.property.test_history import Graph, best, random_graph

GRAPHS = profile.counted(400, 4_000)


def check_remembered(reach: LineReach, graph: Graph, head: ObjId, source: ObjId) -> None:
    views = graph.fresh()
    left, right = graph.views[head], graph.views[source]
    found, expected = reach.merge_base(views, left, right), merge_base(views, left, right)
    _, bases = best(graph, head, source)
    assert _id_of(found) in bases if bases else found is None
    assert _id_of(found) == _id_of(expected)


def _id_of(view: CommitView | None) -> ObjId | None:
    return None if view is None else view.obj_id


def test_one_memory_asked_about_any_heads_answers_like_a_search():
    for seed in range(GRAPHS):
        random = Random(seed)
        merges = random.choice([0.1, 0.3, 0.5])
        graph = random_graph(random, random.randrange(2, 40), random.choice([0.0, 0.05]), merges)
        reach = LineReach(random.choice([1, 3, 10, 1_000]))
        ids = sorted(graph.views)
        for _ in range(12):
            check_remembered(reach, graph, random.choice(ids), random.choice(ids))


def test_a_branch_that_grows_by_merges_answers_like_a_search():
    """Heads that were never published, and those of a branch that was moved back, among them."""
    for seed in range(GRAPHS // 8):
        random, graph = Random(seed), Graph()
        line = [graph.add(EMPTY_ID)]
        sources: list[ObjId] = []
        reach = LineReach(random.choice([20, 1_000]))
        for _ in range(40):
            start = random.choice([*line[-5:], *sources[-3:]])
            for _ in range(random.choice([1, 2, 5])):
                start = graph.add(start)
            sources.append(start)
            source = random.choice(sources)
            check_remembered(reach, graph, line[-1], source)
            made = graph.add(line[-1], source) if random.random() < 0.7 else graph.add(line[-1])
            check_remembered(reach, graph, made, source)
            fate = random.random()
            if fate < 0.7:
                line.append(made)
            elif fate < 0.8 and len(line) > 3:
                del line[-random.randrange(1, 3) :]


def test_a_merge_after_many_others_reads_what_came_since_the_last_one():
    graph = Graph()
    root = graph.add(EMPTY_ID)
    head, reach = graph.add(root), LineReach()
    for _ in range(200):
        source = graph.add(root)
        head = graph.add(head, source)
        reach.merge_base(graph.fresh(), graph.views[head], graph.views[graph.add(root)])
    source = graph.add(root)
    head = graph.add(head, source)
    views = graph.fresh()
    found = reach.merge_base(views, graph.views[head], graph.views[source])
    assert found is not None
    assert found.obj_id == source
    assert views.reads < 60, "the two hundred merges before were not read"
