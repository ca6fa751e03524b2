"""Servers that are killed and receivers that are away: at least once, every event arrives."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.http_load.processes import start_lochan
from lochan.testing import postgres
from tests.crash.event_writers import (
    PATIENCE_S,
    Acknowledged,
    Delivered,
    expected_ids,
    subscribers,
    writing,
)
from tests.profile import counted
from tests.sinks.receiver import Receiver, receiving

KILLS = counted(4, 32)
CHANGES = counted(2_000, 21_000)
"""Acknowledged in all lives."""

AWAY_S = counted(3, 600)
"""For so long the receiver is away."""

FLEET_CHANGES = counted(600, 6_000)


def wait_for_requests(receiver: Receiver, count: int) -> None:
    receiver.wait_for(lambda: len(receiver.requests) >= count, PATIENCE_S)


@pytest.mark.timeout(1_800)
def test_every_change_arrives_although_its_server_is_killed_again_and_again(
    tmp_path: Path, record_property: Any
) -> None:
    store = f"rocksdb:{tmp_path / 'store'}"
    acknowledged = Acknowledged()
    with receiving() as receiver:
        flags = subscribers(receiver.port)
        for life in range(KILLS):
            came = len(receiver.requests)
            with (
                start_lochan(store, tmp_path, *flags) as served,
                writing([served.address], acknowledged, f"life{life}", life),
            ):
                acknowledged.wait_for(CHANGES * (life + 1) // KILLS)
                # So that it is killed while it delivers; a life begins with waiting for the lease.
                wait_for_requests(receiver, came + 20)
                served.kill()
        expected = expected_ids(store)
        wanted = {one for ids in expected.values() for one in ids}
        before = len(Delivered(receiver).ids())
        with start_lochan(store, tmp_path, *flags):
            Delivered(receiver).wait_for_ids(wanted)
        summary = Delivered(receiver).check(expected, acknowledged)
    record_property(
        "counted",
        f"{KILLS} kills of a server with a webhook: {summary}; {len(wanted) - before} events came "
        "after the last kill",
    )


@pytest.mark.timeout(1_800)
def test_a_receiver_that_was_away_gets_everything_without_a_restart(
    tmp_path: Path, record_property: Any
) -> None:
    store = f"rocksdb:{tmp_path / 'store'}"
    acknowledged = Acknowledged()
    with receiving() as first:
        port = first.port
        served = start_lochan(store, tmp_path, *subscribers(port))
        with writing([served.address], acknowledged, "before", 1):
            acknowledged.wait_for(50)
        wait_for_requests(first, 50)
    with served:
        with writing([served.address], acknowledged, "away", 2, each=1):
            acknowledged.wait_for(200)
        # Nothing listens: every attempt is refused until the time is over.
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(AWAY_S)
        with receiving(port=port) as second:
            delivered = Delivered(first, second)
            delivered_before = Delivered(first).ids()
            with writing([served.address], acknowledged, "after", 3):
                acknowledged.wait_for(300)
            # One more than was acknowledged: that of the default branch. No writer was cut off.
            wait_for_requests(second, len(acknowledged.facts) + 1 - len(delivered_before))
            served.stop()
            summary = delivered.check(expected_ids(store), acknowledged)
    record_property("counted", f"receiver away for {AWAY_S} s: {summary}")


@pytest.mark.timeout(1_800)
@pytest.mark.skipif(postgres.find_binaries() is None, reason=postgres.MISSING)
def test_of_two_servers_on_one_database_one_is_killed_and_nothing_is_missing(
    tmp_path: Path, record_property: Any
) -> None:
    database = postgres.shared_server()
    assert database is not None
    store = database.url(schema=database.fresh_schema(), pool=4)
    acknowledged = Acknowledged()
    with receiving() as receiver:
        flags = subscribers(receiver.port)
        with (
            start_lochan(store, tmp_path / "a", "--data", str(tmp_path / "d"), *flags) as one,
            start_lochan(store, tmp_path / "b", "--data", str(tmp_path / "d"), *flags) as two,
        ):
            servers = {one.pid: one, two.pid: two}
            with writing([one.address, two.address], acknowledged, "both", 1):
                acknowledged.wait_for(FLEET_CHANGES // 2)
                wait_for_requests(receiver, 20)
                holder = int(receiver.requests[-1].event["data"]["sentBy"].rpartition("/")[2])
                servers.pop(holder).kill()
                acknowledged.wait_for(FLEET_CHANGES)
            (other,) = servers.values()
            delivered = Delivered(receiver)
            expected = expected_ids(store)
            wanted = {each for ids in expected.values() for each in ids}
            delivered.wait_for_ids(wanted)
            other.check()
            summary = delivered.check(expected, acknowledged)
        senders = {each.event["data"]["sentBy"] for each in delivered.requests()}
    assert len(senders) == 2
    record_property("counted", f"two servers on PostgreSQL, the sender killed: {summary}")
