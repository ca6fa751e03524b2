"""Runs clients in threads while something happens to what they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

from tests.fleet.operations import FleetClient, Recorded

# Nothing that is waited for here takes so long unless it never comes.
PATIENCE_S = 300

MakeClient = Callable[[Sequence[Any], Recorded, int, int], FleetClient]


@contextmanager
def running(
    systems: Sequence[Any],
    recorded: Recorded,
    clients: int,
    seed: int,
    make: MakeClient = FleetClient,
) -> Iterator[None]:
    """Runs clients while the body runs, and waits for their last replies."""
    threads = [
        Thread(target=make(systems, recorded, number, seed).run) for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        with recorded.changed:
            recorded.ending = True
            recorded.changed.notify_all()
        for thread in threads:
            thread.join()


def wait_until(recorded: Recorded, condition: Callable[[], bool], what: str) -> None:
    """Returns when the record is as it should be; a client that has failed ends the wait."""
    with recorded.changed:
        came = recorded.changed.wait_for(lambda: bool(recorded.wrong) or condition(), PATIENCE_S)
        assert not recorded.wrong, recorded.wrong[:5]
        assert came, f"{what} has not come in {PATIENCE_S} s"


def wait_for_writes(recorded: Recorded, count: int) -> None:
    """Returns when so many writes were acknowledged in all."""
    wait_until(recorded, lambda: recorded.acknowledged >= count, f"write {count}")


def wait_for_outage(recorded: Recorded, clients: int) -> None:
    """Returns when so many clients have met the outage."""
    before = dict(recorded.outages)

    def met() -> int:
        now = dict(recorded.outages)
        return sum(times > before.get(one, 0) for one, times in now.items())

    wait_until(recorded, lambda: met() >= clients, "the reply to a client during the outage")


def wait_for_recovery(recorded: Recorded, clients: int) -> None:
    """Returns when every client has written again."""
    before = dict(recorded.writes)
    wait_until(
        recorded,
        lambda: all(recorded.writes.get(one, 0) > before.get(one, 0) for one in range(clients)),
        "a write of every client after the outage",
    )
