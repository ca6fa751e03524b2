"""Histories with merges: ancestors, proofs, logs and merge bases against walks and brute force.

Commits are made directly, by the same rules as the builder's, so that thousands of histories and
chains of a million commits fit into seconds; one test holds the rules against the builder itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

import pytest

from lochan.base.errors import Bug, Corrupt
from lochan.base.ids import EMPTY_ID, ROOT_INSTANCE, ObjId
from lochan.base.limits.commits import COMMIT_TAIL_MAX
from lochan.codec.commits import CommitObject, commit_id, encode_commit, jump_sequence
from lochan.kernel.history import ancestor_at, contains, is_ancestor, iterate_log, merge_base
from lochan.kernel.views import EMPTY_VIEW, CommitView, Views, view_of
from lochan.persist.cache import Caches
from lochan.persist.objects import Objects
from lochan.stores.memory.store import MemoryStore
from lochan.testing.ports import ManualClock
from tests import profile
from tests.kernel.workbench import Bench, Wants, counted, plan, wants

GRAPHS = profile.counted(1_000, 8_000)


class Graph:
    """Commits by their ids, served like stored ones."""

    def __init__(self) -> None:
        self.views: dict[ObjId, CommitView] = {EMPTY_ID: EMPTY_VIEW}
        self.fetches = 0

    def add(self, first: ObjId, *merged: ObjId) -> ObjId:
        """Makes a commit by the rules of the builder, found by walking instead of by jumping."""
        line = self.line(first)
        sequence = len(line) + 1
        jump = jump_sequence(sequence)
        body = CommitObject(
            1,
            (first, *merged),
            f"{len(self.views)}",
            (),
            (),
            bytes(32),
            0,
            sequence,
            1 + max(self.views[one].generation for one in (first, *merged)),
            self.views[first].merges + bool(merged),
            line[-1] if line else b"",
            tuple(line[:COMMIT_TAIL_MAX]),
            line[sequence - jump - 1] if jump else EMPTY_ID,
            (),
            (),
        )
        obj_id = commit_id(body)
        self.views[obj_id] = view_of(obj_id, body)
        return obj_id

    def line(self, head: ObjId) -> list[ObjId]:
        """First-parent ancestors and the commit itself, newest first."""
        found = []
        while head != EMPTY_ID:
            found.append(head)
            head = self.views[head].parent
        return found

    def above(self, head: ObjId) -> set[ObjId]:
        """All ancestors over all parents, the commit itself included, the empty one left out."""
        found: set[ObjId] = set()
        todo = [head]
        while todo:
            one = todo.pop()
            body = self.views[one].body
            if one not in found and body is not None:
                found.add(one)
                todo += [ObjId(raw) for raw in body.parents]
        return found

    def fetch_commits(self, ids: Sequence[ObjId]) -> list[CommitObject]:
        self.fetches += 1
        return [body for body in (self.views[one].body for one in ids) if body is not None]

    def fresh(self) -> Views:
        """Views with nothing in memory."""
        return Views(self, Caches())  # type: ignore[arg-type]


def random_graph(random: Random, commits: int, roots: float, merges: float) -> Graph:
    graph = Graph()
    ids = [EMPTY_ID]
    for _ in range(commits):
        first = EMPTY_ID if random.random() < roots else random.choice(ids[-6:])
        merged: list[ObjId] = []
        if random.random() < merges:
            merged = random.sample(ids, min(len(ids), random.choice([1, 1, 2])))
        ids.append(graph.add(first, *(one for one in merged if one not in (first, EMPTY_ID))))
    return graph


def chain(count: int) -> tuple[Graph, list[ObjId]]:
    graph, ids = Graph(), [EMPTY_ID]
    for _ in range(count):
        ids.append(graph.add(ids[-1]))
    return graph, ids


def test_the_rules_here_are_the_builders_rules():
    bench = Bench()
    graph, head = Graph(), EMPTY_ID
    for number in range(70):
        merged = (ObjId(bench.log()[number // 2].obj_id),) if number % 9 == 8 else ()
        (made,) = bench.commit(Wants(plan([], f"{number}", merged=merged)))
        body = made.head.body
        assert body is not None
        graph.views[made.head.obj_id] = made.head
        twin = graph.views[graph.add(head, *merged)].body
        assert twin is not None
        for field in ("parents", "sequence", "generation", "merges", "root", "tail", "jump"):
            assert getattr(twin, field) == getattr(body, field), (number, field)
        head = made.head.obj_id


def test_every_ancestor_is_found_and_no_other_is_proved():
    graph, ids = chain(130)
    side = [ids[40]]
    for _ in range(60):
        side.append(graph.add(side[-1]))
    lines = [ids, [*ids[:41], *side[1:]]]
    for line in lines:
        for high in range(0, len(line), 3):
            start = graph.views[line[high]]
            for low in range(high + 1):
                assert ancestor_at(graph.fresh(), start, low) == line[low], (high, low)
    proposals = {one: graph.line(one) for one in graph.views}
    views = graph.fresh()
    for one in graph.views.values():
        for other in graph.views.values():
            expected = one.obj_id in proposals[other.obj_id] or one.obj_id == EMPTY_ID
            assert is_ancestor(views, one, other) == expected


def test_ancestors_of_random_histories_equal_the_walk():
    pairs = 0
    for seed in range(40):
        random = Random(seed)
        graph = random_graph(random, 90, 0.02, 0.2)
        views = graph.fresh()
        for head in random.sample(sorted(graph.views), 20):
            line = [*graph.line(head), EMPTY_ID]
            for distance, expected in enumerate(line):
                at = len(line) - 1 - distance
                assert ancestor_at(views, graph.views[head], at) == expected, seed
                pairs += 1
    assert pairs > 5_000


def test_there_is_no_ancestor_before_the_first_or_after_the_commit_itself():
    graph, ids = chain(3)
    for wrong in (-1, 4):
        with pytest.raises(Bug):
            ancestor_at(graph.fresh(), graph.views[ids[3]], wrong)


def test_a_jump_that_leads_elsewhere_is_corrupt():
    graph, ids = chain(200)
    start, target = graph.views[ids[62]], jump_sequence(62)
    assert 62 - target > COMMIT_TAIL_MAX, "so far that the tail does not help"
    graph.views[ids[target]] = graph.views[ids[target + 1]]
    with pytest.raises(Corrupt, match="jump"):
        ancestor_at(graph.fresh(), start, target)


def stored(graph: Graph) -> tuple[Views, Callable[[], int]]:
    """The graph on a real store, and how many fetches it has seen."""
    store, counts = counted(MemoryStore())
    objects = Objects(store, ROOT_INSTANCE, ManualClock())
    bodies = [(one, view.body) for one, view in graph.views.items()]
    objects.store_many([(one, encode_commit(body)) for one, body in bodies if body is not None])
    counts.reset()
    return Views(objects, Caches()), lambda: sum(counts.calls.values())


@pytest.mark.parametrize("length", [0, 1, 2, 20, 21, 22, 41, 105])
def test_a_log_is_newest_first_with_one_fetch_for_twenty(length):
    graph, ids = chain(length)
    views, fetches = stored(graph)
    log = list(iterate_log(views, ids[-1]))
    assert [view.obj_id for view in log] == ids[:0:-1]
    # The head alone, then its tail, and so on.
    assert fetches() == (0 if not length else 1 + -(-(length - 1) // 20))


def test_a_log_that_is_left_early_reads_no_further():
    graph, ids = chain(105)
    views, fetches = stored(graph)
    log = iterate_log(views, ids[-1])
    assert [next(log).obj_id for _ in range(21)] == ids[:84:-1]
    assert fetches() == 2


def test_what_is_in_the_chain_is_found_and_the_walk_ends_at_its_generation():
    graph, ids = chain(100)
    other = graph.add(ids[49])
    for number in range(1, 101):
        assert contains(graph.fresh(), graph.views[ids[100]], ids[number], number)
    views = graph.fresh()
    assert not contains(views, graph.views[ids[100]], other, 50)
    assert views.reads <= 61, "at most one batch below the generation that is looked for"
    assert not contains(graph.fresh(), EMPTY_VIEW, other, 50)


def best(graph: Graph, left: ObjId, right: ObjId) -> tuple[int, set[ObjId]]:
    common = graph.above(left) & graph.above(right)
    top = max((graph.views[one].generation for one in common), default=0)
    return top, {one for one in common if graph.views[one].generation == top}


def check_bases(graph: Graph, random: Random, pairs: int) -> tuple[int, int]:
    ids = sorted(graph.views)
    nothing = several = 0
    for _ in range(pairs):
        left, right = random.choice(ids), random.choice(ids)
        _, expected = best(graph, left, right)
        found = merge_base(graph.fresh(), graph.views[left], graph.views[right])
        if expected:
            assert found is not None
            assert found.obj_id in expected
        else:
            assert found is None
        nothing += not expected
        several += len(expected) > 1
    return nothing, several


def test_merge_bases_equal_brute_force_on_random_graphs():
    nothing = several = 0
    for seed in range(GRAPHS):
        random = Random(seed)
        roots, merges = random.choice([0.0, 0.1, 0.4]), random.choice([0.0, 0.15, 0.5])
        graph = random_graph(random, random.randrange(1, 22), roots, merges)
        try:
            counts = check_bases(graph, random, 6)
        except AssertionError as error:
            error.add_note(f"graph {seed}")
            raise
        nothing, several = nothing + counts[0], several + counts[1]
    assert nothing > GRAPHS / 16, "histories that share nothing were tried"
    assert several > GRAPHS / 80, "and those with several best ancestors"


def test_merge_bases_of_larger_graphs_equal_brute_force():
    for seed in range(25):
        random = Random(1_000 + seed)
        graph = random_graph(random, 200, 0.01, random.choice([0.0, 0.02, 0.3]))
        check_bases(graph, random, 12)


def test_a_criss_cross_has_one_of_its_two_bases_and_the_order_does_not_matter():
    graph = Graph()
    root = graph.add(EMPTY_ID)
    one, other = graph.add(root), graph.add(root)
    left, right = graph.add(one, other), graph.add(other, one)
    for pair in ((left, right), (right, left), (graph.add(left), graph.add(right))):
        found = merge_base(graph.fresh(), graph.views[pair[0]], graph.views[pair[1]])
        assert found is not None
        assert found.obj_id in (one, other)


def test_the_base_of_a_commit_and_its_ancestor_is_the_ancestor_even_over_second_parents():
    graph = Graph()
    root = graph.add(EMPTY_ID)
    side = graph.add(graph.add(EMPTY_ID))
    merged = graph.add(graph.add(root), side)
    for low in (root, side, merged):
        for pair in ((low, merged), (merged, low)):
            found = merge_base(graph.fresh(), graph.views[pair[0]], graph.views[pair[1]])
            assert found is not None
            assert found.obj_id == low


def test_nothing_is_read_to_tell_that_an_empty_branch_shares_nothing():
    """Found by review: the whole history of the other branch was walked if it had a merge."""
    graph = random_graph(Random(1), 100, 0.05, 0.5)
    head = max(graph.views.values(), key=lambda view: view.generation)
    views = graph.fresh()
    assert merge_base(views, head, EMPTY_VIEW) is None
    assert merge_base(views, EMPTY_VIEW, head) is None
    assert merge_base(views, EMPTY_VIEW, EMPTY_VIEW) is None
    assert views.reads == 0


class Endless:
    """Two linear histories that part at a sequence; commits are computed when they are asked for.

    An id is the line (0 for what both share) and the sequence.
    """

    def __init__(self, parted: int) -> None:
        self._parted = parted
        self.body = lru_cache(100_000)(self._body)

    def obj_id(self, line: int, sequence: int) -> ObjId:
        if sequence == 0:
            return EMPTY_ID
        line = line if sequence > self._parted else 0
        return ObjId(bytes((line,)) + sequence.to_bytes(31, "big"))

    def _body(self, obj_id: ObjId) -> CommitObject:
        line, sequence = obj_id[0], int.from_bytes(obj_id[1:], "big")
        tail = [self.obj_id(line, one) for one in range(sequence - 1, max(0, sequence - 21), -1)]
        return CommitObject(
            1,
            (self.obj_id(line, sequence - 1),),
            "",
            (),
            (),
            b"",
            0,
            sequence,
            sequence,
            0,
            b"",
            tuple(tail),
            self.obj_id(line, jump_sequence(sequence)),
            None,
            (),
        )

    def fetch_commits(self, ids: Sequence[ObjId]) -> list[CommitObject]:
        return [self.body(one) for one in ids]

    def views(self) -> Views:
        return Views(self, Caches())  # type: ignore[arg-type]

    def view(self, line: int, sequence: int) -> CommitView:
        obj_id = self.obj_id(line, sequence)
        return view_of(obj_id, self.body(obj_id))


def test_an_ancestor_a_million_commits_away_is_at_most_eighty_reads_away():
    world, random = Endless(0), Random(3)
    worst = 0
    heads = [1_000_001, 1_048_575, 1_048_576, 1_048_577, 2_097_150, 1_999_999]
    for head in [*heads, *(random.randrange(1_000_001, 3_000_000) for _ in range(300))]:
        for target in {1, 2, head - 1_000_000, random.randrange(1, head - 1_000_000 + 1)}:
            views = world.views()
            start = world.view(1, head)
            assert ancestor_at(views, start, target) == world.obj_id(1, target)
            worst = max(worst, views.reads)
            assert not is_ancestor(world.views(), world.view(2, target), start)
    print(f"worst of ancestor_at over a million: {worst} reads")
    assert worst <= 80


def test_the_base_of_branches_that_parted_long_ago_is_at_most_two_hundred_reads_away():
    random = Random(4)
    worst = 0
    for parted in [1, 2, 900_000, 1_048_575, *(random.randrange(1, 10**6) for _ in range(100))]:
        world = Endless(parted)
        lengths = (100_000, random.choice([1, 100_000, 99_999, 250_000]))
        for one, other in (lengths, lengths[::-1]):
            views = world.views()
            found = merge_base(views, world.view(1, parted + one), world.view(2, parted + other))
            assert found is not None
            assert found.obj_id == world.obj_id(0, parted)
            worst = max(worst, views.reads)
    print(f"worst of merge_base at 100,000: {worst} reads")
    assert worst <= 200


def test_long_branches_that_share_nothing_are_told_by_few_reads():
    world = Endless(0)
    views = world.views()
    assert merge_base(views, world.view(1, 1_000_000), world.view(2, 777_777)) is None
    assert views.reads <= 200


def test_commits_beyond_the_memory_are_read_again_and_agree():
    bench = Bench()
    for number in range(60):
        bench.commit(wants(number))
    small = Views(bench.context.objects, Caches(60_000))
    head = bench.head()
    ids = [view.obj_id for view in bench.log()]
    for at, expected in enumerate(ids, 1):
        assert ancestor_at(small, head, at) == expected
    assert [view.obj_id for view in iterate_log(small, head.obj_id)] == ids[::-1]
