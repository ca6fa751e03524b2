"""Delivery at least once: cursors that survive, waiting receivers, leases, gaps."""

from __future__ import annotations

import msgspec
import pytest

from lochan.base.errors import Invalid
from lochan.base.ids import EMPTY_ID
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.codec.forms import add_checksum
from lochan.events.filters import EventFilter
from lochan.events.reactions import EventRefused, ReceiverRefused
from lochan.events.subscribers import SubscriptionState
from lochan.kernel.provenance import Initiator
from lochan.kernel.references import NewReferenceRow, ReferenceIndex
from lochan.kv.store import Kind, partition
from lochan.model import events
from lochan.model.events import GapFound
from lochan.persist.rows import scan_all
from tests.events.collector import Collector
from tests.events.durable_bench import DurableServer, Refusing, messages, work
from tests.kernel.workbench import counted as calls_counted

BRANCHES = 10_000

DAY_US = 86_400 * 1_000_000
COMMITS = EventFilter(types=("COMMIT",))


def test_the_first_start_begins_at_the_present():
    server = DurableServer()
    server.commit("before")
    listener = Collector()
    delivery = server.subscribe(listener, COMMITS)
    server.commit("after")
    work(delivery, server.clock)
    assert messages(listener.events) == ["after"]


def test_what_happened_while_no_server_ran_is_delivered_at_the_next_start():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener)
    work(delivery, server.clock)
    delivery.finish()
    other = DurableServer(server.store, server.clock)
    other.commit("missed")
    other.repository.references.create("new")
    other.repository.references.delete("new")
    again = Collector()
    work(other.subscribe(again), server.clock)
    assert sorted(again.types) == [
        "COMMIT",
        "CONTENT_STORED",
        "REFERENCE_CREATED",
        "REFERENCE_DELETED",
    ]


def test_a_crash_repeats_no_more_than_what_was_under_way():
    server = DurableServer()
    delivery = server.subscribe(Collector(), COMMITS)
    for number in range(5):
        server.commit(f"c{number}")
    work(delivery, server.clock)
    # The worker is gone without giving the lease back.
    server.commit("last")
    again = Collector()
    other = DurableServer(server.store, server.clock)
    later = other.subscribe(again, COMMITS)
    work(later, server.clock, pauses=6)
    assert messages(again.events) == ["last"]


def test_changes_of_another_server_are_found_by_a_search():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener, COMMITS)
    work(delivery, server.clock)
    DurableServer(server.store, server.clock).commit("elsewhere")
    assert not listener.events
    work(delivery, server.clock)
    assert messages(listener.events) == ["elsewhere"]


def test_a_repository_that_is_created_later_is_delivered_from_its_creation():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener)
    work(delivery, server.clock)
    DurableServer(server.store, server.clock).open("second")
    work(delivery, server.clock)
    assert [(one.type, one.repository) for one in listener.events] == [
        ("REFERENCE_CREATED", "second")
    ]


def test_a_receiver_that_is_away_makes_everything_wait_and_then_gets_it_in_order():
    server = DurableServer()
    listener = Refusing(ConnectionError("away"))
    delivery = server.subscribe(listener, COMMITS)
    for number in range(4):
        server.commit(f"c{number}")
    work(delivery, server.clock, pauses=40)
    status = delivery.status()
    assert (status.state, status.delivered, status.dead) == (SubscriptionState.TRIPPED, 0, 0)
    assert status.lag_ms > 100_000
    assert len(set(listener.asked)) == 1
    listener.failure = None
    work(delivery, server.clock, pauses=8)
    assert messages(listener.events) == ["c0", "c1", "c2", "c3"]
    status = delivery.status()
    assert (status.state, status.lag_ms) == (SubscriptionState.RUNNING, 0)


def test_after_a_long_outage_changes_of_other_servers_are_found_as_soon_as_before():
    server = DurableServer()
    listener = Refusing(ConnectionError("away"))
    delivery = server.subscribe(listener, COMMITS)
    other = DurableServer(server.store, server.clock)
    other.commit("a")
    work(delivery, server.clock, pauses=100)
    listener.failure = None
    work(delivery, server.clock, pauses=8)
    other.commit("b")
    server.clock.advance_us(1_500_000)
    while delivery.turn():
        pass
    assert messages(listener.events) == ["a", "b"]


def test_only_an_event_that_is_refused_as_such_is_a_dead_letter():
    server = DurableServer()
    listener = Refusing(ReceiverRefused("no"))
    delivery = server.subscribe(listener, COMMITS)
    server.commit("a")
    server.commit("b")
    work(delivery, server.clock, pauses=20)
    assert delivery.status().dead == 0
    listener.failure = EventRefused("not this one")
    work(delivery, server.clock, pauses=8)
    assert [one.event.type for one in delivery.dead_letters] == ["COMMIT", "COMMIT"]
    listener.failure = None
    server.commit("c")
    work(delivery, server.clock)
    assert messages(listener.events) == ["c"]


def test_an_event_in_the_middle_of_a_change_that_fails_repeats_no_other():
    server = DurableServer()
    listener = Refusing(ConnectionError())
    delivery = server.subscribe(listener)
    server.commit("a")
    work(delivery, server.clock)
    listener.failure = None
    work(delivery, server.clock, pauses=4)
    assert listener.types == ["COMMIT", "CONTENT_STORED"]


def test_stopping_delivers_what_is_noted():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener, COMMITS)
    work(delivery, server.clock)
    server.commit("late")
    delivery.stop()
    while not delivery.is_over:
        delivery.turn()
    assert messages(listener.events) == ["late"]


def test_a_cursor_that_is_too_old_gets_one_gap_that_names_what_it_missed():
    server = DurableServer()
    server.repository.references.create("quiet")
    server.repository.references.create("gone")
    delivery = server.subscribe(Collector(), COMMITS)
    work(delivery, server.clock)
    delivery.finish()
    before = server.repository.references.get("main").hash
    server.commit("missed")
    server.repository.references.create("new")
    server.repository.references.delete("gone")
    server.clock.advance_us(8 * DAY_US)
    listener = Collector()
    again = server.subscribe(listener, COMMITS)
    work(again, server.clock, pauses=3)
    (gap,) = listener.events
    assert isinstance(gap, GapFound)
    assert (gap.cause, gap.missed_left_out, gap.reference.name) == ("age", 0, "")
    after = server.repository.references.get("main").hash
    missed = {one.name: (one.hash_before, one.hash_after) for one in gap.missed}
    assert missed == {"main": (before, after), "new": ("", after), "gone": (before, "")}
    server.commit("next")
    work(again, server.clock)
    assert messages(listener.events) == ["next"]


def test_an_old_cursor_without_changes_has_no_gap():
    server = DurableServer()
    delivery = server.subscribe(Collector(), COMMITS)
    work(delivery, server.clock)
    delivery.finish()
    server.clock.advance_us(30 * DAY_US)
    listener = Collector()
    again = server.subscribe(listener, COMMITS)
    work(again, server.clock, pauses=2)
    server.commit("next")
    work(again, server.clock)
    assert messages(listener.events) == ["next"]
    assert listener.types == ["COMMIT"]


def test_a_gap_that_a_crash_repeats_has_the_same_id():
    server = DurableServer()
    delivery = server.subscribe(Collector(), COMMITS)
    work(delivery, server.clock)
    delivery.finish()
    server.commit("missed")
    server.clock.advance_us(8 * DAY_US)
    listener = Refusing(ConnectionError())
    for _ in range(2):
        again = server.subscribe(listener, COMMITS)
        work(again, server.clock, pauses=6)
        again.cancel()
        again.finish()
    assert len(listener.asked) > 2
    assert len(set(listener.asked)) == 1


def test_a_history_that_cannot_be_read_is_a_gap_of_its_reference_only():
    server = DurableServer()
    server.repository.references.create("hurt")
    listener = Collector()
    delivery = server.subscribe(listener, COMMITS)
    for number in range(20):
        for target in ("main", "hurt"):
            server.commit(f"c-{target}-{number}", target)
        server.repository.references.assign("hurt", "main")
    context = server.repositories.open("default").context
    log = partition(context.instance, Kind.LOG)
    lost = list(scan_all(server.store, log))[1]
    server.store.delete(log, lost.key)
    work(delivery, server.clock)
    gaps = [one for one in listener.events if isinstance(one, GapFound)]
    assert [(one.cause, one.reference.name) for one in gaps] == [("history", "hurt")]
    assert {one.reference.name for one in listener.events if one.type == "COMMIT"} == {"main"}
    server.commit("next", "hurt")
    work(delivery, server.clock)
    assert messages(listener.events)[-1] == "next"


def test_what_a_newer_version_wrote_waits_for_the_upgrade_and_nothing_waits_for_it():
    server = DurableServer()
    server.repository.references.create("newer")
    listener = Collector()
    delivery = server.subscribe(listener, COMMITS)
    for number in range(20):
        for target in ("main", "newer"):
            server.commit(f"{target}-{number}", target)
        server.repository.references.assign("newer", "main")
    context = server.repositories.open("default").context
    log = partition(context.instance, Kind.LOG)
    entry = list(scan_all(server.store, log))[1]
    later = add_checksum(entry.value[:1] + b"\x02" + entry.value[2:-4])
    server.store.put_many([(log, entry.key, later)])
    work(delivery, server.clock)
    server.repository.references.create("later")
    server.commit("next", "later")
    work(delivery, server.clock, pauses=2)
    assert {one.reference.name for one in listener.events} == {"main", "later"}
    assert delivery.status().last_error == "newer_format"
    server.store.put_many([(log, entry.key, entry.value)])
    work(delivery, server.clock, pauses=2)
    newer = [one for one in listener.events if one.reference.name == "newer"]
    assert messages(newer) == [f"newer-{number}" for number in range(20)]


def test_sweeps_take_nothing_from_a_cursor_that_lags():
    server = DurableServer()
    delivery = server.subscribe(Collector())
    work(delivery, server.clock)
    delivery.finish()
    references = server.repository.references
    references.create("short")
    server.commit("on short", "short")
    references.assign("short", "main")
    references.delete("short")
    server.clock.advance_us(3 * DAY_US)
    swept = server.repository.sweep()
    assert swept.removed == 1
    listener = Collector()
    again = server.subscribe(listener)
    work(again, server.clock)
    assert [one for one in listener.types if one.startswith("REFERENCE")] == [
        "REFERENCE_CREATED",
        "REFERENCE_UPDATED",
        "REFERENCE_DELETED",
    ]


def test_a_deleted_reference_leaves_no_position_behind():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener, EventFilter(types=tuple(events.REFERENCE_TYPES)))
    work(delivery, server.clock)
    context = server.repositories.open("default").context
    rows = partition(context.instance, Kind.CURSORS)
    before = len(list(scan_all(server.store, rows)))
    for number in range(5):
        server.repository.references.create(f"b{number}")
        server.repository.references.delete(f"b{number}")
    work(delivery, server.clock, pauses=2)
    assert len(listener.events) == 10
    assert len(list(scan_all(server.store, rows))) == before
    server.repository.references.create("b1")
    work(delivery, server.clock, pauses=2)
    assert (len(listener.events), listener.events[-1].reference.name) == (11, "b1")


def test_what_a_filter_excludes_begins_at_the_present_when_it_is_included():
    server = DurableServer()
    server.open("second")
    only = EventFilter(types=("COMMIT",), repositories=("second",), references=("none",))
    delivery = server.subscribe(Collector(), only)
    work(delivery, server.clock)
    server.commit("excluded")
    work(delivery, server.clock)
    delivery.cancel()
    delivery.finish()
    listener = Collector()
    again = server.subscribe(listener, COMMITS)
    work(again, server.clock)
    server.commit("included")
    work(again, server.clock)
    assert messages(listener.events) == ["included"]


def test_cursors_of_different_subscribers_are_apart():
    server = DurableServer()
    one, two = Collector(), Refusing(ConnectionError())
    first = server.subscribe(one, COMMITS, cursor="first")
    second = server.subscribe(two, COMMITS, cursor="second")
    server.commit("a")
    work(first, server.clock)
    work(second, server.clock, pauses=9)
    two.failure = None
    work(second, server.clock, pauses=3)
    assert messages(one.events) == messages(two.events) == ["a"]


def test_a_cursor_has_a_name_that_fits_into_rows():
    server = DurableServer()
    with pytest.raises(Invalid, match="cursor"):
        server.subscribe(Collector(), cursor="a\0b")


def test_a_creation_that_is_half_done_is_finished_and_delivered():
    server = DurableServer()
    listener = Collector()
    delivery = server.subscribe(listener)
    work(delivery, server.clock)
    names = ReferenceIndex(DurableServer(server.store).repositories.open("default").context)
    add = names.prepare_create(
        [NewReferenceRow(RefName("half"), "BRANCH", EMPTY_ID)], Initiator("ada")
    )
    names.publisher.publish([add])
    work(delivery, server.clock)
    (event,) = listener.events
    assert (event.type, event.reference.name, event.initiator) == (
        "REFERENCE_CREATED",
        "half",
        "ada",
    )


def test_a_search_of_10_000_branches_of_which_one_has_changed_costs_counted_reads():
    """Two reads for each 1,000 references, and those of what has changed."""
    server = DurableServer()
    context = server.repositories.open("default").context
    head = NewReferenceRow(RefName("b"), "BRANCH", EMPTY_ID)
    names = [RefName(f"b{number:05}") for number in range(BRANCHES)]
    new = [msgspec.structs.replace(head, name=name) for name in names]
    ReferenceIndex(context).create_many(new, Initiator("ada"))
    store, counts = calls_counted(server.store)
    other = DurableServer(store, server.clock)
    listener = Collector()
    delivery = other.subscribe(listener, COMMITS)
    work(delivery, server.clock)
    server.commit("elsewhere", "b04711")
    counts.reset()
    server.clock.advance_us(1_100_000)
    while delivery.turn():
        pass
    assert messages(listener.events) == ["elsewhere"]
    pages = -(-(BRANCHES + 2) // PAGE_ENTRIES_MAX)
    # The list of repositories is two scans, the commit one bulk read.
    assert counts.calls["scan"] == pages + 2
    assert counts.calls["get_many"] == pages + 1
    assert counts.calls["get"] <= 6
    assert counts.calls["set_if"] == 1
