"""Tombstones and claims go after a day, never earlier, and nothing that is known is lost."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Corrupt
from lochan.base.ids import ObjId
from lochan.base.limits.storage import GRACE_S
from lochan.base.names import RefName
from lochan.kernel.provenance import Initiator
from lochan.kernel.publish import Publisher
from lochan.kernel.purge import Purged, Skipped, sweep_claims, sweep_references
from lochan.kernel.references import ReferenceIndex
from lochan.kernel.reflog import RefLog
from lochan.kv.store import Kind, partition
from lochan.testing.faults import FaultKind, FaultyStore, SimulatedCrash
from lochan.testing.invariants import all_rows, check_references
from tests.kernel.workbench import MAIN, Bench, OnCalls, branch, claim, nth, wants

NAME = RefName("work")
DAY_US = GRACE_S * 1_000_000


def with_tombstone() -> Bench:
    bench = Bench()
    bench.commit(wants(1))
    bench.names.create_many([branch(NAME, bench.head().obj_id)], Initiator("me"))
    Publisher(bench.context, NAME).publish([wants(2)])
    bench.names.delete(NAME, ObjId(bench.row(NAME).pointer), Initiator("me"))
    return bench


def log_of(bench: Bench) -> list[tuple[str, str | None, str]]:
    entries = RefLog(bench.context).page(NAME, 100).items
    return [(one.kind, one.old, one.new) for one in entries]


def test_a_tombstone_goes_after_the_grace_and_not_a_moment_before():
    bench = with_tombstone()
    before = log_of(bench)
    bench.clock.advance_us(DAY_US)
    assert sweep_references(bench.context, bench.names) == Purged(3, 0, 1)
    bench.clock.advance_us(1)
    assert sweep_references(bench.context, bench.names) == Purged(3, 1, 0)
    assert bench.context.references.fetch(NAME) is None
    assert log_of(bench) == before
    assert bench.names.find(MAIN) is not None
    assert sweep_references(bench.context, bench.names) == Purged(2)


def test_live_references_stay_however_old():
    bench = Bench()
    bench.commit(wants(1))
    bench.clock.advance_us(100 * DAY_US)
    assert sweep_references(bench.context, bench.names).removed == 0
    assert bench.names.get(MAIN).row == bench.row()


def test_a_name_that_was_purged_can_be_made_again_and_has_both_lives_in_its_log():
    bench = with_tombstone()
    bench.clock.advance_us(DAY_US + 1)
    sweep_references(bench.context, bench.names)
    bench.names.create_many([branch(NAME)], Initiator("again"))
    assert [kind for kind, _, _ in log_of(bench)] == ["create", "delete", "commit", "create"]
    check_references(bench.context)


def test_a_half_done_deletion_is_finished_and_its_tombstone_waits(monkeypatch):
    bench = Bench()
    bench.names.create_many([branch(NAME)], Initiator("me"))
    with monkeypatch.context() as patch:
        patch.setattr(ReferenceIndex, "_finish_delete", lambda *_: None)
        bench.names.delete(NAME, ObjId(bench.row(NAME).pointer), Initiator("me"))
    bench.clock.advance_us(DAY_US + 1)
    assert sweep_references(bench.context, bench.names) == Purged(3, 0, 1, 1)
    assert bench.row(NAME).deleted
    check_references(bench.context)
    assert sweep_references(bench.context, bench.names) == Purged(3, 1, 0)


def test_a_row_that_came_back_meanwhile_is_not_removed():
    bench = with_tombstone()
    bench.clock.advance_us(DAY_US + 1)

    def come_back(call):
        if call.operation == "delete_if":
            Bench(bench.store, seed=9, fresh=False).names.create_many(
                [branch(NAME)], Initiator("other")
            )

    hurt = bench.again(FaultyStore(bench.store, OnCalls(come_back)))
    hurt.clock.advance_us(DAY_US + 1)
    purged = sweep_references(hurt.context, hurt.names)
    assert (purged.removed, purged.kept) == (0, 1)
    assert not bench.row(NAME).deleted
    check_references(bench.context)


@pytest.mark.parametrize("fault", [FaultKind.LOST_REPLY, FaultKind.CRASH_BEFORE])
@pytest.mark.parametrize("operation", ["put_many", "delete_if"])
def test_whatever_happens_on_the_way_the_log_stays_whole(operation, fault):
    bench = with_tombstone()
    before = log_of(bench)
    hurt = bench.again(FaultyStore(bench.store, nth(operation, 0, fault)))
    hurt.clock.advance_us(DAY_US + 1)
    try:
        sweep_references(hurt.context, hurt.names)
    except SimulatedCrash:
        assert fault is FaultKind.CRASH_BEFORE
    assert log_of(bench) == before
    bench.clock.advance_us(DAY_US + 1)
    sweep_references(bench.context, bench.names)
    assert NAME not in all_rows(bench.context)
    assert log_of(bench) == before


def test_moves_that_were_never_copied_are_in_the_log_before_the_row_goes():
    bench = with_tombstone()
    place = partition(bench.context.instance, Kind.LOG)
    before = log_of(bench)
    for entry in bench.store.scan(place, b"", None, 100).entries:
        bench.store.delete(place, entry.key)
    bench.clock.advance_us(DAY_US + 1)
    sweep_references(bench.context, bench.names)
    assert NAME not in all_rows(bench.context)
    assert log_of(bench) == before


def test_claims_are_swept_after_the_grace():
    bench = Bench()
    claim(bench.context, "me", "old", b"digest", MAIN)
    bench.clock.advance_us(DAY_US)
    claim(bench.context, "me", "young", b"digest", MAIN)
    assert sweep_claims(bench.context) == Purged(2, 0, 2)
    bench.clock.advance_us(1)
    assert sweep_claims(bench.context) == Purged(2, 1, 1)
    assert sweep_claims(bench.context) == Purged(1, 0, 1)
    assert claim(bench.context, "me", "old", b"another", MAIN).digest == b"another"


def test_a_claim_that_is_swept_while_it_is_looked_at_is_made_anew(monkeypatch):
    bench = Bench()
    first = claim(bench.context, "me", "key", b"digest", MAIN)
    place = partition(bench.context.instance, Kind.CLAIMS)
    (entry,) = bench.store.scan(place, b"", None, 10).entries

    class Forgetful(FaultyStore):
        """Loses without returning the present row, and the row is gone at the next read."""

        def set_if(self, *arguments):
            outcome = super().set_if(*arguments)
            if hasattr(outcome, "current"):
                bench.store.delete(place, entry.key)
                return msgspec.structs.replace(outcome, current=None)
            return outcome

    other = bench.again(Forgetful(bench.store, OnCalls(lambda _: None)))
    other.clock.advance_us(5)
    assert claim(other.context, "me", "key", b"digest", MAIN).when_us == first.when_us + 5


def test_a_damaged_claim_is_corrupt():
    bench = Bench()
    claim(bench.context, "me", "key", b"digest", MAIN)
    place = partition(bench.context.instance, Kind.CLAIMS)
    (entry,) = bench.store.scan(place, b"", None, 10).entries
    bench.store.put_many([(place, entry.key, b"\x93\x01")])
    claim(bench.context, "me", "other", b"digest", MAIN)
    bench.clock.advance_us(DAY_US + 1)
    purged = sweep_claims(bench.context)
    assert (purged.removed, purged.kept) == (1, 0)
    assert purged.skipped == (Skipped("claim", entry.key, "corrupt"),)
    with pytest.raises(Corrupt):
        claim(bench.context, "me", "key", b"digest", MAIN)
