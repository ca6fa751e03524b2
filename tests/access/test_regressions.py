"""Bugs of the directory that were found by the explorer, each with its schedule."""

from __future__ import annotations

from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from tests.access.bench import DirectoryBench
from tests.access.changes import small_office
from tests.kernel.workbench import OnCalls


def test_an_access_key_that_is_sealed_again_while_it_is_deleted_is_deleted():
    """The reply to the deletion was lost, and the row that was meant had been replaced before."""
    bench = small_office()
    old, new = bench.access_key("bob", "k1"), bench.access_key("bob", "k1", b"sealed again")
    deletions: list[PlannedCall] = []

    def choose(call: PlannedCall) -> Fault | None:
        if call.operation != "delete_if" or call.key != b"credentials/k1":
            return None
        deletions.append(call)
        if len(deletions) > 1:
            return None
        assert bench.directory.replace_credential(old, new)
        return Fault(FaultKind.LATE, 1)

    server = bench.again(FaultyStore(bench.store, OnCalls(choose)))
    server.directory.delete_credential("k1")
    assert len(deletions) == 3
    assert bench.again().directory.find_credential("k1") is None


def test_a_membership_that_was_ended_is_not_reported_as_absent():
    """Its group was deleted right after; the caller was told that there had been no membership."""
    bench = small_office()
    ended: list[PlannedCall] = []

    def choose(call: PlannedCall) -> None:
        if ended and len(ended) == 1:
            ended.append(call)
            bench.directory.delete_group("g")
        if call.operation == "delete_if" and call.key == b"members/bob!g":
            ended.append(call)

    server = bench.again(FaultyStore(bench.store, OnCalls(choose)))
    server.directory.remove_member("bob", "g")
    assert len(ended) == 2
    assert DirectoryBench(bench.store).directory.list_groups().items == ()
