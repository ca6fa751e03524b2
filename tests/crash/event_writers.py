"""Writers on a server that may be killed, and what its webhook receiver must get for that."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from lochan.base.errors import LochanError
from lochan.client import Client
from lochan.embedded import open_repository
from lochan.model import events
from lochan.model.commits import Put
from tests.events.replayed import all_names, changes, context_of, events_of
from tests.service.bench import table
from tests.sinks.receiver import Receiver, Request

# Nothing that is waited for here takes so long unless it never comes.
PATIENCE_S = 300
ANSWER_S = 30.0
TYPES = sorted(events.REFERENCE_TYPES | {events.COMMIT})

Fact = tuple[str, str, str]
"""A type, a reference, and where it points after the change, before it for a deletion."""


class Acknowledged:
    """The changes that servers have acknowledged to all writers."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.facts: list[Fact] = []

    def note(self, *fact: str) -> None:
        with self.changed:
            self.facts.append((fact[0], fact[1], fact[2]))
            self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.facts) >= count, PATIENCE_S)


class Writer:
    """Commits to `main`; now and then it makes a branch, commits there and deletes the branch."""

    def __init__(self, address: str, name: str, acknowledged: Acknowledged, seed: int) -> None:
        self._client = Client(address, timeout_s=ANSWER_S, attempts_max=1)
        self._name = name
        self._acknowledged = acknowledged
        self._random = Random(seed)
        self._number = 0
        self.is_ending = False

    def run(self) -> None:
        """Writes until it is asked to end, or its server is gone."""
        try:
            while not self.is_ending:
                self._number += 1
                if self._random.random() < 0.05:
                    self._branch(f"{self._name}-{self._number}")
                else:
                    self._commit("main")
        except LochanError:
            # The server was killed; what this request did is not known.
            return
        finally:
            self._client.close()

    def _commit(self, branch: str) -> str:
        key = f"{self._name}-{self._number}-{branch}"
        made = self._client.commits.commit(branch, key, [Put(key=(key,), content=table(key))])
        self._acknowledged.note(events.COMMIT, branch, made.hash)
        return made.hash

    def _branch(self, name: str) -> None:
        made = self._client.references.create(name, "main")
        self._acknowledged.note(events.REFERENCE_CREATED, name, made.hash)
        head = self._commit(name)
        self._client.references.delete(name)
        self._acknowledged.note(events.REFERENCE_DELETED, name, head)


@contextmanager
def writing(
    addresses: Sequence[str], acknowledged: Acknowledged, label: str, seed: int, each: int = 3
) -> Iterator[None]:
    """Runs writers in threads while the body runs."""
    writers = [
        Writer(address, f"{label}-{at}-{number}", acknowledged, seed * 100 + at * 10 + number)
        for at, address in enumerate(addresses)
        for number in range(each)
    ]
    threads = [threading.Thread(target=one.run) for one in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in writers:
            one.is_ending = True
        for thread in threads:
            thread.join()


def subscribers(port: int, **more: Any) -> list[str]:
    """Returns the flags of a server with a webhook on a port of this machine."""
    hook = {
        "type": "webhook",
        "delivery": "at-least-once",
        "url": f"http://localhost:{port}/hook",
        "unsigned": True,
        "allow_addresses": ["127.0.0.0/8"],
        "types": TYPES,
        # A lease lasts half as long again, so that a restarted server soon goes on.
        "call_ms_max": 1_000,
        "poll_ms": 200,
        "breaker_ms": 500,
        **more,
    }
    return ["--subscribers", json.dumps({"hook": hook})]


def expected_ids(store: str) -> dict[str, list[str]]:
    """Returns the ids of the events of everything that a store shows, by reference, in order."""
    with open_repository(store) as repository:
        context = context_of(repository)
        found: dict[str, list[str]] = {}
        for name in all_names(context):
            made = events_of(changes(context, name))
            found[name] = [one.id for one in made if one.type in TYPES]
        return found


class Delivered:
    """What receivers got, in the order of its coming."""

    def __init__(self, *receivers: Receiver) -> None:
        self._receivers = receivers

    def requests(self) -> list[Request]:
        return [request for one in self._receivers for request in list(one.requests)]

    def ids(self) -> set[str]:
        return {request.headers["webhook-id"] for request in self.requests()}

    def wait_for_ids(self, wanted: set[str]) -> None:
        """Returns when the last receiver, with what those before it got, has all of these."""
        last = self._receivers[-1]
        earlier = Delivered(*self._receivers[:-1]).ids()
        left = wanted - earlier
        at = 0

        def has_come() -> bool:
            nonlocal at
            new = last.requests[at:]
            at += len(new)
            left.difference_update(request.headers["webhook-id"] for request in new)
            return not left

        last.wait_for(has_come, PATIENCE_S)

    def check(self, expected: dict[str, list[str]], acknowledged: Acknowledged) -> str:
        """Compares what came with what is in the store, and with what was acknowledged."""
        first: dict[str, list[str]] = {}
        facts: set[Fact] = set()
        seen: set[str] = set()
        repeated = 0
        for request in self.requests():
            data = request.event["data"]
            name, kind = data["reference"]["name"], data["type"]
            facts.add((kind, name, data.get("hashAfter") or data["hashBefore"]))
            if data["id"] in seen:
                repeated += 1
            else:
                seen.add(data["id"])
                first.setdefault(name, []).append(data["id"])
        assert first == expected, "events are missing, invented, or out of order"
        missing = set(acknowledged.facts) - facts
        assert not missing, sorted(missing)[:5]
        return (
            f"{len(acknowledged.facts)} acknowledged changes, {len(seen)} events, "
            f"{repeated} repeated"
        )
