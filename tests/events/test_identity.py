"""A subscriber with an identity gets what that user may read; what it may not see is nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from lochan.access.enforcement import EnforcedPolicy
from lochan.access.policy import Call, Rights
from lochan.assembly.events import EventRunner
from lochan.assembly.subscribers import Registration
from lochan.base.names import RefName
from lochan.events.durable import DurableDelivery
from lochan.events.identity import SubscriberIdentity, shown_to
from lochan.events.subscribers import DeliveryOptions, SubscriptionState
from lochan.model import events
from lochan.model.access import Statement
from lochan.model.commits import Delete
from lochan.model.events import Event, EventReference, OtherEvent
from lochan.service.event_streams import EventStreams
from lochan.service.policy import Access
from lochan.wire.events import encode_event
from tests.access.access_world import Server, allow
from tests.events.collector import Collector
from tests.events.durable_bench import DurableServer, work
from tests.events.test_attributes import put
from tests.events.test_delivery import Bench

CANARY = "canary4711"


class World:
    """A repository with subscribers, and the users of a server."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.server = Server()
        self.server.set_up()
        self.bounded, self.whole = Collector(), Collector()
        identity = SubscriberIdentity("alice", self.server.authenticator.find_user)
        options = DeliveryOptions(failures_max=1)
        hub = self.bench.hub
        self.delivery = hub.subscribe(self.bounded, None, options, identity=identity)
        hub.subscribe(self.whole)

    @property
    def repository(self) -> Any:
        return self.bench.repository

    def allow(self, *statements: Statement) -> None:
        self.server.add_policy("own", *statements)
        self.server.add_user("alice", "own")

    def deliver(self) -> list[Event]:
        """Delivers everything; returns what the bounded subscriber got."""
        for delivery in self.bench.started:
            while delivery.turn():
                pass
        return self.bounded.events


def text_of(found: list[Event]) -> str:
    return b"\n".join(encode_event(event) for event in found).decode()


def reading(**where: Any) -> Statement:
    return Statement(effect="allow", actions=("read",), **where)


def change_everything(repository: Any) -> None:
    """Changes of which `alice` may see those of `open` on `main`; all others have the canary."""
    repository.commits.commit("main", "both", [put("open"), put(CANARY)])
    repository.references.create(f"side-{CANARY}")
    repository.commits.commit(f"side-{CANARY}", f"on a hidden branch {CANARY}", [put("x")])
    repository.files.put("main", f"{CANARY}/file", b"bytes")
    repository.files.put("main", "shown/file", b"bytes")
    repository.files.commit("main", "files", [Delete(key=(CANARY,))])
    repository.merges.merge("main", f"side-{CANARY}", message="merge")
    repository.references.create(f"tag-{CANARY}", kind="TAG")
    repository.references.delete(f"side-{CANARY}")


def test_what_an_identity_may_not_see_is_in_no_event():
    world = World()
    world.allow(reading(references=("main",), keys=("open", "x"), paths=("shown/*",)))
    change_everything(world.repository)
    got = world.deliver()
    assert CANARY in text_of(world.whole.events)
    assert CANARY not in text_of(got)
    assert [event.type for event in got] == [
        *("COMMIT", "CONTENT_STORED"),
        *("COMMIT", "FILE_STORED"),
        *("MERGE", "CONTENT_STORED"),
    ]
    both, stored, files, _, merge, _ = got
    assert isinstance(both, events.CommitMade)
    assert both.operations == (events.OperationSummary("PUT", ("open",)),)
    assert isinstance(stored, events.ContentStored)
    assert stored.key == ("open",)
    assert isinstance(files, events.CommitMade)
    assert files.operations == (events.OperationSummary("PUT", path="shown/file"),)
    assert isinstance(merge, events.MergeMade)
    assert (merge.source, merge.source_hash, merge.common_ancestor) == ("", "", "")
    status = world.delivery.status()
    assert status.delivered == len(got)
    assert status.delivered + status.rejected == len(world.whole.events)


def test_who_may_read_everything_gets_the_events_as_they_are():
    world = World()
    world.allow(reading())
    change_everything(world.repository)
    assert world.deliver() == world.whole.events


def test_names_of_keys_may_be_seen_without_their_contents():
    world = World()
    world.allow(
        reading(references=("main",), keys=("open",)),
        allow("view_reference", "read_log", "read_entries", references=("main",)),
    )
    world.repository.commits.commit("main", "both", [put("open"), put("closed")])
    world.repository.commits.commit("main", "gone", [Delete(key=("closed",))])
    got = world.deliver()
    assert [(event.type, getattr(event, "key", None)) for event in got] == [
        ("COMMIT", None),
        ("CONTENT_STORED", ("open",)),
        ("COMMIT", None),
        ("CONTENT_REMOVED", ("closed",)),
    ]
    assert isinstance(got[0], events.CommitMade)
    assert len(got[0].operations) == 2


def test_who_may_not_read_the_log_of_a_reference_gets_nothing_of_it():
    world = World()
    world.allow(allow("view_reference", "read_entries", "read_content"))
    world.bench.commit("a")
    assert world.deliver() == []
    assert world.delivery.status().rejected == len(world.whole.events)


def test_rights_are_those_at_the_time_of_delivery():
    world = World()
    world.allow(reading())
    world.bench.commit("a")
    world.server.directory.delete_user("alice")
    assert world.deliver() == []
    world.server.add_user("alice", "own")
    world.bench.clock.advance_us(60_000_000)
    world.bench.commit("b")
    assert [event.type for event in world.deliver()] == ["COMMIT", "CONTENT_STORED"]


def test_a_change_of_rights_counts_after_the_time_for_which_they_are_remembered():
    world = World()
    world.allow(reading())
    world.bench.commit("a")
    assert len(world.deliver()) == 2
    world.server.another().directory.detach("user", "alice", "own")
    world.server.advance_ms(3_000)
    world.bench.commit("b")
    assert len(world.deliver()) == 2


@pytest.mark.parametrize("is_set_up", [True, False])
def test_without_its_user_nothing_is_delivered_and_the_status_says_why(is_set_up: bool):
    world = World()
    if not is_set_up:
        world.server.authenticator = Server().authenticator
    world.bench.commit(CANARY)
    assert world.deliver() == []
    status = world.delivery.status()
    assert status.state is SubscriptionState.TRIPPED
    assert status.last_error.startswith("ReceiverRefused: there is no user 'alice'")
    assert (status.delivered, status.retried) == (0, 0)
    assert len(world.whole.events) == 2


def rights_of(*statements: Statement) -> Rights:
    server = Server()
    server.set_up()
    server.add_policy("own", *statements)
    server.add_user("alice", "own")
    found = server.authenticator.find_user("alice")
    assert found is not None
    assert found.rights is not None
    return found.rights


def gap(cause: str, *names: str) -> events.GapFound:
    return events.GapFound(
        id="1",
        type="GAP",
        time_us=0,
        sent_by="",
        initiator="",
        roles=(),
        repository="default",
        reference=EventReference("" if cause == "age" else names[0], "", "", 0),
        version=0,
        operation="",
        cause=cause,
        since_us=0,
        missed=tuple(events.MissedChanges(name, 1, "aa", 1, "bb") for name in names),
        missed_left_out=2,
    )


def test_a_gap_names_the_references_that_may_be_read():
    some = rights_of(reading(references=("main",)))
    found = shown_to(some, gap("age", "main", CANARY))
    assert isinstance(found, events.GapFound)
    assert [one.name for one in found.missed] == ["main"]
    assert found.missed_left_out == 0
    assert shown_to(some, gap("history", CANARY)) is None
    assert shown_to(rights_of(allow("read_metrics")), gap("age", CANARY)) is None
    whole = gap("age", "main", CANARY)
    assert shown_to(rights_of(reading()), whole) == whole


def test_a_type_that_is_not_judged_is_not_shown():
    reference = EventReference("main", "/refs/heads/main", "BRANCH", 1)
    unknown = OtherEvent(
        id="1",
        type="LATER",
        time_us=0,
        sent_by="",
        initiator="",
        roles=(),
        repository="default",
        reference=reference,
        version=0,
        operation="",
        fields={"key": CANARY},
    )
    assert shown_to(rights_of(reading()), unknown) is None


_DENIED = Statement(effect="deny", actions=("view_reference",), references=("main",))

POLICIES = {
    "nothing": [allow("read_metrics")],
    "everything": [reading()],
    "one reference": [reading(references=("main",))],
    "some keys": [reading(references=("main",), keys=("open", "x"), paths=("shown/*",))],
    "names": [allow("view_reference", "read_log", "read_entries")],
    "no log": [allow("view_reference", "read_entries", "read_content")],
    "no view": [reading(), _DENIED],
}


@pytest.mark.parametrize("name", POLICIES)
def test_subscribers_and_followers_of_the_stream_see_the_same(name: str):
    world = World()
    change_everything(world.repository)
    world.deliver()
    rights = rights_of(*POLICIES[name])
    call = Call("alice", rights=rights, repository="default")
    access = Access("default", EnforcedPolicy())
    repository = world.repository._repository
    streams = EventStreams(repository.context, repository._resolver, access)
    for event in world.whole.events:
        reference = RefName(event.reference.name)
        followed = streams.shown(call, streams.rights(call, reference), event)
        shown = shown_to(rights, event)
        assert (shown is None) == (followed is None), event
        if shown is not None and followed is not None:
            fields = set(followed.event.__struct_fields__) - set(followed.left_out)
            for field in fields:
                assert getattr(shown, field) == getattr(followed.event, field)


def test_at_least_once_events_wait_for_the_user_and_hidden_ones_do_not_come():
    durable = DurableServer()
    users = Server(clock=durable.clock)
    users.set_up()
    bounded = Collector()
    identity = SubscriberIdentity("alice", users.authenticator.find_user)
    options = DeliveryOptions(cursor="alice")
    delivery = durable.hub.subscribe(bounded, None, options, identity=identity)
    assert isinstance(delivery, DurableDelivery)
    for name in ("open", CANARY, "second"):
        durable.commit(name)
    work(delivery, durable.clock, pauses=5)
    status = delivery.status()
    assert (bounded.events, status.delivered, status.dead) == ([], 0, 0)
    assert status.last_error.startswith("ReceiverRefused: there is no user 'alice'")
    users.add_policy("own", reading(references=("main",), keys=("open", "second")))
    users.add_user("alice", "own")
    work(delivery, durable.clock, pauses=5)
    stored = [event.key for event in bounded.events if isinstance(event, events.ContentStored)]
    assert stored == [("open",), ("second",)]
    listed = [event.operations for event in bounded.events if isinstance(event, events.CommitMade)]
    assert [len(one) for one in listed] == [1, 0, 1]


def test_outside_of_a_server_no_identity_is_accepted():
    bench = Bench()
    runner = EventRunner(bench.ports)
    collector = Collector()
    runner.register([Registration(name="one", load=lambda: collector, identity="alice")])
    runner.close()
    assert collector.subscription is None
