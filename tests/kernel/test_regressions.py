"""What went wrong once, each by its shortest reproduction."""

from __future__ import annotations

import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import EMPTY_ID
from lochan.base.keys import Universe, table_key
from lochan.base.names import RefName
from lochan.kernel.claims import ClaimedProposal
from lochan.kernel.merge import MergeProposal
from lochan.kernel.merge_choices import Choices
from lochan.kernel.provenance import UNNAMED
from lochan.kernel.publish import Publisher
from lochan.kv.defaults import PlainHold
from lochan.kv.store import Hold, Kind, Partition, partition
from tests.kernel.reading import message_of, published
from tests.kernel.workbench import MAIN, Bench, LockingStore, OnCalls, branch, claim, wants
from tests.property.merge_world import MergeWorld


def test_a_branch_that_merged_the_target_before_is_replayed_from_where_it_parted():
    world = MergeWorld(1)
    ours, theirs = (bytes(table_key([name])) for name in ("ours", "theirs"))
    world.put("main", ours, 1)
    world.branch("side", "main")
    world.put("side", theirs, 2)
    world.put("main", ours, 3)
    world.publish("side", MergeProposal(world.context, world.head("main"), "merge main", Choices()))
    main = Publisher(world.context, RefName("main"))
    (replayed,) = main.publish(
        [MergeProposal(world.context, world.head("side"), "", Choices(), replay=True)]
    )
    assert [message_of(view) for view in published(replayed).commits] == ["put 2"]
    world.content["main"][theirs] = world.element(theirs, 2)
    world.check("main")


def test_a_claimed_commit_is_found_on_a_branch_that_was_moved_back_behind_the_claim():
    bench = Bench()
    bench.commit(*[wants(number) for number in range(5)])
    claimed = claim(bench.context, "somebody", "key", b"digest", MAIN)
    bench.names.assign(MAIN, bench.head().obj_id, EMPTY_ID, UNNAMED)
    for _ in range(2):
        # The same request twice, because the reply to the first was lost.
        proposal = ClaimedProposal(bench.context, wants(9), claimed)
        Publisher(bench.context, MAIN).publish([proposal])
    assert len(bench.log()) == 1
    assert proposal.done is not None


def test_what_a_merge_took_from_the_target_is_not_replayed_onto_it():
    world = MergeWorld(1)
    ours, theirs = (bytes(table_key([name])) for name in ("ours", "theirs"))
    world.put("main", ours, 1)
    world.branch("side", "main")
    world.put("side", theirs, 2)
    world.put("main", ours, 3)
    world.publish("side", MergeProposal(world.context, world.head("main"), "merge main", Choices()))
    world.put("main", ours, 4)
    (replayed,) = Publisher(world.context, RefName("main")).publish(
        [MergeProposal(world.context, world.head("side"), "", Choices(), replay=True)]
    )
    assert [message_of(view) for view in published(replayed).commits] == ["put 2"]
    world.content["main"][theirs] = world.element(theirs, 2)
    world.check("main")


class _CountedHold(PlainHold):
    """A hold that counts how often it is released."""

    released = 0

    def release(self) -> None:
        self.released += 1


class _CountedHolds(LockingStore):
    def hold(self, partition: Partition, key: bytes) -> Hold:
        self.held = _CountedHold(self, self.get(partition, key))
        return self.held


def test_a_held_row_that_cannot_be_read_is_released():
    base = Bench()
    store = _CountedHolds(base.store, OnCalls(lambda _: None))
    bench = base.again(store)
    place = partition(bench.context.instance, Kind.REFERENCES)
    base.store.put_many([(place, MAIN.encode(), b"damaged")])
    bench.publisher._cautious_rounds = 8
    with pytest.raises(Corrupt, match="checksum"):
        bench.publisher.publish([wants(1)])
    assert store.held.released == 1


def test_merges_go_on_after_a_chain_of_them_lost_its_swap():
    """Found by review: a lane searched the history of a merge that was never stored.

    A chain has more commits here than each of them lists of its parents.
    """
    bench = Bench()
    bench.commit(wants(0))
    sides = [RefName(f"side-{number}") for number in range(90)]
    bench.names.create_many([branch(name) for name in sides], UNNAMED)
    for number, name in enumerate(sides):
        bench.names.assign(name, EMPTY_ID, bench.head().obj_id, UNNAMED)
        Publisher(bench.context, name).publish([wants(10 + number)])
    other = bench.again()
    for turn in range(2):
        merges = [
            MergeProposal(bench.context, bench.head(name), "merge", Choices())
            for name in sides[turn * 45 : turn * 45 + 45]
        ]
        for settled in bench.publisher.publish(merges):
            published(settled)
        other.commit(wants(100 + turn))
    assert len(bench.content(bench.head(), Universe.TABLES)) == 1 + 90 + 2
