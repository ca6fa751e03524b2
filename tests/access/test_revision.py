"""Caches notice every acknowledged change within ACCESS_STALE_MS, with one read of one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lochan.access.directory import Directory
from lochan.access.revision import REVISION_KEY
from lochan.base.errors import NotFound, Unknown
from lochan.base.limits.access import ACCESS_READ_ATTEMPTS_MAX, ACCESS_STALE_MS
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Entry, Partition, Store
from lochan.testing.call_counts import CallCounts
from lochan.testing.faults import Fault, FaultKind, FaultyStore, PlannedCall
from lochan.testing.ports import ManualClock
from tests.access.bench import DirectoryBench, policy
from tests.access.changes import CHANGES, small_office
from tests.kernel.workbench import OnCalls

# They read, or change nothing that decides about a caller.
NO_CHANGES = {"replace_key_check", "scope_policies"}


@pytest.fixture
def bench() -> DirectoryBench:
    return small_office()


def test_every_method_that_changes_something_is_among_these():
    reads = ("find_", "get_", "list_", "all_", "groups_of", "attached_to", "policies_for", "new_")
    public = {name for name in dir(Directory) if not name.startswith("_")}
    assert {name for name in public if not name.startswith(reads)} - NO_CHANGES == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_by_every_server_after_the_stated_time(bench, name):
    other = bench.again(seed=3)
    before = other.directory.revision.read()
    CHANGES[name](bench)
    assert bench.directory.revision.read() != before, "the server of the change notices at once"
    other.clock.advance_us(ACCESS_STALE_MS * 1_000 + 1)
    assert other.directory.revision.find_known() is None
    assert other.directory.revision.read() == bench.directory.revision.read() != before


def test_a_revision_is_read_from_memory_for_a_short_time(bench):
    counts = CallCounts()
    one = bench.again(ObservedStore(bench.store, counts, ManualClock()))
    revision = one.directory.revision
    assert revision.find_known() is None
    value = revision.read()
    counts.reset()
    one.clock.advance_us(ACCESS_STALE_MS * 1_000)
    assert (revision.find_known(), revision.read()) == (value, value)
    assert not counts.calls
    one.clock.advance_us(1)
    assert revision.find_known() is None
    assert revision.read() == value
    assert counts.calls == {"get": 1}


@pytest.mark.parametrize("name", CHANGES)
def test_the_revision_is_written_after_the_change(bench, name):
    """A cache that reads between the two remembers the new rows, or the old ones for a moment."""
    written: list[bytes | None] = []

    def note(call: PlannedCall) -> None:
        if call.operation in ("set_if", "delete_if", "put_many", "delete"):
            written.append(call.key)

    faulty = FaultyStore(bench.store, OnCalls(note))
    CHANGES[name](bench.again(faulty))
    assert written[-1] == b"revision"


class LateReads:
    """A store whose first read of the revision ends after something else has happened."""

    def __init__(self, store: Store, happens: Callable[[], None]) -> None:
        self._store = store
        self._happens: Callable[[], None] | None = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, partition: Partition, key: bytes) -> Entry | None:
        found = self._store.get(partition, key)
        happens = self._happens
        if key == REVISION_KEY and happens is not None:
            self._happens = None
            happens()
        return found


def test_a_read_that_ends_after_a_change_does_not_hide_it_from_its_own_server(bench):
    before = bench.directory.revision.read()
    one = bench.again(LateReads(bench.store, lambda: one.directory.create_group("h")))
    assert one.directory.revision.fetch() == before, "it was read before the change"
    assert one.directory.revision.find_known() is None
    assert one.directory.revision.read() != before


@pytest.mark.parametrize("name", ["delete_user", "remove_member", "detach", "delete_token"])
def test_an_answer_that_something_is_absent_ends_with_a_revision_too(bench, name):
    """It may be the second one to a request whose first reply was lost before the revision."""
    CHANGES[name](bench)
    before = bench.directory.revision.read()
    with pytest.raises(NotFound):
        CHANGES[name](bench)
    assert bench.directory.revision.read() != before


def test_a_lost_reply_never_brings_a_revision_back(bench):
    """A copy that is late has another value than the one that was acknowledged."""
    values: list[object] = []

    def lose(call: PlannedCall) -> Fault | None:
        if call.operation != "put_many":
            return None
        values.append(call.arguments)
        return Fault(FaultKind.LATE, 6) if len(values) == 1 else None

    faulty = FaultyStore(bench.store, OnCalls(lose))
    one = bench.again(faulty)
    one.directory.create_group("h")
    seen = bench.again().directory.revision.read()
    assert len(values) == 2
    one.directory.delete_group("h")
    assert bench.again().directory.revision.read() != seen


def test_a_change_whose_revision_cannot_be_written_is_unknown(bench):
    def cut(call: PlannedCall) -> Fault | None:
        return Fault(FaultKind.NOT_APPLIED) if call.operation == "put_many" else None

    one = bench.again(FaultyStore(bench.store, OnCalls(cut)))
    with pytest.raises(Unknown, match="it was made"):
        one.directory.delete_token("t1")
    assert bench.directory.find_token("t1") is None


def test_rights_are_read_between_two_changes(bench):
    """Bob leaves the group before it gets another policy; he is never seen with that one."""
    one = bench.again()
    moments = iter(range(100))

    def change(call: PlannedCall) -> None:
        # Between the memberships and the attachments.
        reads_attachments = call.operation == "scan" and (call.key or b"").startswith(b"attached/")
        if reads_attachments and next(moments) == 0:
            bench.directory.remove_member("bob", "g")
            bench.directory.put_policy(policy("q"))
            bench.directory.attach("group", "g", "q")

    reader = one.again(FaultyStore(bench.store, OnCalls(change)))
    assert reader.directory.policies_for("bob", ()) == ()


def test_reading_rights_ends_though_something_changes_all_the_time(bench):
    reads: list[int] = []

    def change(call: PlannedCall) -> None:
        if call.operation == "get" and call.key == b"users/bob":
            reads.append(1)
            bench.directory.create_user(f"u{len(reads)}")

    reader = bench.again(FaultyStore(bench.store, OnCalls(change)))
    assert len(reader.directory.policies_for("bob", ())) == 1
    assert len(reads) == ACCESS_READ_ATTEMPTS_MAX
