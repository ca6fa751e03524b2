"""Long work outside the lane: what is prepared, when it is outdated, and that it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from lochan.base.errors import KeysConflict, ReferenceNotFound
from lochan.base.ids import ObjId
from lochan.base.keys import Universe
from lochan.codec.elements import encode_file
from lochan.index.bulk import ChangeBatch
from lochan.index.difference import Difference
from lochan.index.node import Change
from lochan.index.read import iterate
from lochan.kernel.plan import CommitPlan
from lochan.kernel.preparation import GraftLimits, Preparation, publish_prepared
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Proposal, Published, Publisher, Settled, head_at
from lochan.kernel.references import NewReferenceRow
from lochan.kernel.reliance import Reliance
from lochan.model.entries import FileEntry
from lochan.testing.invariants import check_chain
from tests.kernel.workbench import (
    MAIN,
    Bench,
    Reacts,
    Wants,
    element,
    file_element,
    path,
    plan,
    published,
    put,
    table,
    wants,
)

MANY = 1_500


def wide(name: str = "wide") -> Wants:
    """Puts so many tables that the commit does not list its keys."""
    return Wants(plan([put(table(n), element(n)) for n in range(1_000, 1_000 + MANY)], name))


def alike(bench: Bench, proposal: Proposal, preparation: Preparation) -> None:
    """The graft and the plan on the present head are the same commits."""
    (planned,) = bench.publisher.preview([proposal])
    grafted = published(bench.publisher.preview([preparation])[0])
    assert not preparation.is_outdated
    assert grafted.commits == published(planned).commits


def in_lane(bench: Bench) -> Callable[[Proposal], Settled]:
    return lambda proposal: bench.publisher.publish([proposal])[0]


def test_what_the_head_changed_meanwhile_is_in_the_grafted_commit():
    bench = Bench()
    bench.commit(*[wants(n) for n in range(100)])
    proposal = wide()
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    bench.commit(wants(7, "again"), Wants(plan([put(table(8), None)], "removed")))
    bench.commit(Wants(plan([put(path(1), file_element(1))], "file")))
    alike(bench, proposal, preparation)
    done = publish_prepared(preparation, in_lane(bench))
    content = bench.content(published(done).head, Universe.TABLES)
    assert table(8) not in content
    assert len(content) == 99 + MANY
    check_chain(bench.again().context, published(done).head.obj_id)


def test_the_lane_writes_a_commit_and_few_nodes():
    bench = Bench()
    preparation = Preparation(bench.publisher, wide())
    assert preparation.advance() is None
    bench.commit(wants(1))
    (plan_of_graft,) = preparation.plan(_head(bench))
    built = _head(bench).builder.build(bench.head(), plan_of_graft)
    assert len(built.objects()) <= 5
    other = bench.again().context
    assert isinstance(plan_of_graft, CommitPlan)
    assert plan_of_graft.graft is not None
    root = plan_of_graft.graft.roots[Universe.TABLES]
    assert root is not None
    assert len(list(iterate(other.nodes, root))) == MANY


def test_a_universe_that_the_head_left_alone_is_taken_as_it_was_built():
    bench = Bench()
    proposal = wide()
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    bench.commit(Wants(plan([put(path(1), file_element(1))], "file")))
    alike(bench, proposal, preparation)
    (planned,) = preparation.plan(_head(bench))
    assert _head(bench).builder.build(bench.head(), planned).nodes == ()


def test_a_change_that_is_smaller_than_that_of_the_head_is_applied_again():
    bench = Bench()
    proposal = Wants(plan([put(table(n), element(n)) for n in range(200)], "few"))
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    bench.commit(wide())
    (outdated,) = bench.publisher.preview([preparation])
    assert preparation.is_outdated
    assert published(outdated).commits == ()
    assert preparation.advance() is None
    alike(bench, proposal, preparation)


class Bulk:
    """Changes of very many files, from a list."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes

    def batches(self) -> Iterator[ChangeBatch]:
        for start in range(0, len(self.changes), 100):
            piece = self.changes[start : start + 100]
            yield ChangeBatch([key for key, _ in piece], [value for _, value in piece])

    def have_one_of(self, keys: Sequence[bytes]) -> bool:
        return not {key for key, _ in self.changes}.isdisjoint(keys)


def test_very_many_files_come_as_a_stream_without_operations():
    bench = Bench()
    bench.commit(Wants(plan([put(path(MANY + 1), file_element(1))], "embedded")))
    bulk = Bulk([(path(n), file_element(n)) for n in range(MANY)])
    proposal = Wants(plan([put(table(1), element(1))], "files", bulk=bulk))
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    others = path(MANY + 7)
    bench.commit(Wants(plan([put(others, file_element(-1))], "other")))
    alike(bench, proposal, preparation)
    done = published(publish_prepared(preparation, in_lane(bench)))
    found = bench.content(done.head, Universe.FILES)
    assert found == dict(
        [*bulk.changes, (path(MANY + 1), file_element(1)), (others, file_element(-1))]
    )
    assert done.head.body is not None
    assert done.head.body.own is None
    check_chain(bench.again().context, done.head.obj_id)


def test_a_stream_of_files_is_compared_again_if_a_later_head_has_one_of_them():
    bench = Bench()
    bulk = Bulk([(path(n), file_element(n)) for n in range(MANY)])
    proposal = Wants(plan([], "files", bulk=bulk))
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    bench.commit(Wants(plan([put(path(7), file_element(-1))], "other")))
    bench.publisher.preview([preparation])
    assert preparation.is_outdated
    assert preparation.advance() is None
    alike(bench, proposal, preparation)
    done = published(publish_prepared(preparation, in_lane(bench)))
    assert bench.content(done.head, Universe.FILES)[path(7)] == file_element(7)
    check_chain(bench.again().context, done.head.obj_id)


def test_a_file_that_moved_to_another_address_meanwhile_stays_there():
    """Found by review: the graft had the file at its old address again."""
    bench = Bench()
    there, here = (encode_file(FileEntry(at, 1, 1, bytes(32))) for at in ("there", "here"))
    bench.commit(Wants(plan([put(path(MANY), there)], "there")))
    proposal = Wants(plan([], "files", bulk=Bulk([(path(n), file_element(n)) for n in range(9)])))
    preparation = Preparation(bench.publisher, proposal)
    assert preparation.advance() is None
    bench.commit(Wants(plan([put(path(MANY), here)], "here")))
    alike(bench, proposal, preparation)
    done = published(publish_prepared(preparation, in_lane(bench)))
    assert bench.content(done.head, Universe.FILES)[path(MANY)] == here


@pytest.mark.parametrize("before", [None, file_element(7)], ids=["made equal", "removed"])
def test_whether_a_file_changes_is_not_decided_by_an_older_head(before: bytes | None):
    bench = Bench()
    if before is not None:
        bench.commit(Wants(plan([put(path(7), before)], "before")))
    bulk = Bulk([(path(n), None if n == 7 and before else file_element(n)) for n in range(MANY)])
    preparation = Preparation(bench.publisher, Wants(plan([], "files", bulk=bulk)))
    assert preparation.advance() is None
    bench.commit(Wants(plan([put(path(7), None if before else file_element(7))], "other")))
    bench.publisher.preview([preparation])
    assert preparation.is_outdated
    # The planner compares again: what is not changed is left out.
    assert publish_prepared(preparation, in_lane(bench)) is not None


def test_ranges_are_compared_as_they_were_read():
    random = Random(1)
    for _ in range(300):
        reliance, keys = Reliance(), [bytes((at,)) for at in range(12)]
        ranges = [
            (random.choice(keys), random.choice([*keys, None])) for _ in range(random.randrange(5))
        ]
        for start, end in ranges:
            reliance.add_range(start, end)
        for key in keys:
            read = any(start <= key and (end is None or key < end) for start, end in ranges)
            assert reliance.is_touched([Difference(key, None, b"x")], None) == read


def test_another_incarnation_is_prepared_for_again():
    bench = Bench()
    bench.commit(wants(1))
    preparation = Preparation(bench.publisher, wide())
    assert preparation.advance() is None
    incarnation = bench.row().incarnation
    _created_again(bench)
    meant = wide("meant")
    meant.incarnation = incarnation
    publisher = Publisher(bench.context, MAIN)
    publisher.preview([preparation])
    assert preparation.is_outdated
    assert preparation.advance() is None
    assert published(publisher.publish([preparation])[0]).commits
    refused = Preparation(publisher, meant).advance()
    assert isinstance(refused, ReferenceNotFound)


def test_a_refusal_outside_the_lane_is_final_and_names_all_conflicts():
    bench = Bench()
    bench.commit(wants(1_001), wants(1_002))
    operations = [put(table(n), element(n), None) for n in range(1_000, 1_000 + MANY)]
    refused = Preparation(bench.publisher, Wants(plan(operations))).advance()
    assert isinstance(refused, KeysConflict)
    assert len(refused.details) == 2


def test_who_is_disturbed_all_the_time_is_planned_in_the_lane():
    bench = Bench()
    planned: list[ObjId] = []

    def react(head):
        planned.append(head.view.obj_id)
        head.find([table(1)])
        return wide().plans

    def disturbed(proposal: Proposal) -> Settled:
        bench.commit(Wants(plan([put(table(1), element(len(planned)))], f"{len(planned)}")))
        return bench.publisher.publish([proposal])[0]

    done = publish_prepared(Preparation(bench.publisher, Reacts(react)), disturbed)
    assert isinstance(done, Published)
    assert len(planned) == 3


def test_who_is_overtaken_all_the_time_is_grafted_without_a_bound():
    bench = Bench()
    offers: list[bool] = []
    preparation = Preparation(bench.publisher, wide(), GraftLimits(differences_max=4, offers_max=3))

    def overtaken(proposal: Proposal) -> Settled:
        offers.append(preparation.is_heavy)
        numbers = range(10 * len(offers), 10 * len(offers) + 9)
        bench.commit(*[wants(n) for n in numbers])
        return bench.publisher.publish([proposal])[0]

    assert published(publish_prepared(preparation, overtaken)).commits
    assert offers == [False, False, True]


def _head(bench: Bench):
    head = head_at(bench.context, MAIN, bench.head())
    return type(head)(head.view, head.builder, bench.row())


def _created_again(bench: Bench) -> None:
    head = bench.head().obj_id
    bench.names.delete(MAIN, head, UNNAMED)
    bench.names.create_many([NewReferenceRow(MAIN, "BRANCH", head)], UNNAMED)
