"""A connection cut at every byte of a publish, both ways: no effect twice, none missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.kv.store import (
    ABSENT,
    Adds,
    Hold,
    Kind,
    Outcome,
    Partition,
    SetIf,
    Store,
    Won,
    partition,
)
from lochan.testing.contracts.sample_rows import INSTANCE, OBJECTS, REFERENCES, must_win
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.witness import Witness, resolve

pytestmark = pytest.mark.slow

OTHER = partition(INSTANCE, Kind.STAGING)

Write = Callable[[Store, Hold | None, Adds, SetIf], Outcome]


def set_if(store: Store, held: Hold | None, adds: Adds, row: SetIf) -> Outcome:
    return store.set_if(row.partition, row.key, row.value, row.expected)


def apply(store: Store, held: Hold | None, adds: Adds, row: SetIf) -> Outcome:
    return store.apply(adds, row)


def held_apply(store: Store, held: Hold | None, adds: Adds, row: SetIf) -> Outcome:
    assert held is not None
    return held.apply(adds, row)


class Experiment:
    """Publishes through the wire again and again, each time cut somewhere else."""

    def __init__(self, write: Write, victim: Store, direct: Store, wire: FaultyWire) -> None:
        self._write = write
        self._victim = victim
        self._direct = direct
        self._wire = wire
        self._number = 0
        self.outcomes: Counter[str] = Counter()
        self.stamp = must_win(direct.set_if(REFERENCES, b"main", b"start", ABSENT))
        must_win(direct.set_if(OTHER, b"warm", b"", ABSENT))

    def warm(self) -> None:
        """Makes the victim connect and prepare, so that the publish itself is all there is."""
        entry = self._direct.get(OTHER, b"warm")
        assert entry is not None
        row = SetIf(OTHER, b"warm", b"", entry.stamp)
        held = self._hold(OTHER, b"warm")
        must_win(self._write(self._victim, held, Adds([(OBJECTS, b"warm", b"")], 1), row))

    def measure(self, way: Way) -> int:
        """Returns how many bytes a publish sends that way."""
        self.publish(WireFault.NOTHING, way, 0)
        return self._wire.passed(way)

    def publish(self, mishap: WireFault, way: Way, after: int) -> None:
        """One publish with one mishap, settled: its effect must be there once."""
        self._number += 1
        value = b"%06d" % self._number
        adds = Adds([(OBJECTS, value, b"body")], 1)
        row = SetIf(REFERENCES, b"main", value, self.stamp)
        held = self._hold(REFERENCES, b"main")
        self._wire.plan(mishap, way, after)
        try:
            outcome: Outcome | LochanError = self._write(self._victim, held, adds, row)
        except (Unknown, Unavailable) as error:
            outcome = error
        self.outcomes[type(outcome).__name__] += 1
        self._wire.release()
        if isinstance(outcome, Unavailable):
            entry = self._direct.get(REFERENCES, b"main")
            assert entry is not None
            assert entry.stamp == self.stamp, "Unavailable means: no effect"
        settled = outcome if isinstance(outcome, Won) else resolve(self._direct, adds, row)
        self.stamp = must_win(settled)

    def check(self, witness: Witness) -> tuple[int, int]:
        """Returns how many publishes had no effect and how many had more than one."""
        witness.wait_until_quiet()
        effects = witness.effects(b"main")
        values = [b"%06d" % number for number in range(1, self._number + 1)]
        losses = sum(effects[value] == 0 for value in values)
        duplicates = sum(effects[value] > 1 for value in values)
        last = self._direct.get(REFERENCES, b"main")
        assert last is not None
        assert last.value == values[-1]
        return losses, duplicates

    def _hold(self, where: Partition, key: bytes) -> Hold | None:
        return self._victim.hold(where, key) if self._write is held_apply else None


@pytest.fixture
def experiment(
    request: pytest.FixtureRequest,
    opened: Open,
    wire: FaultyWire,
) -> Experiment:
    direct = opened(pool=2)
    victim = opened(port=wire.port, pool=1, application_name="victim")
    return Experiment(request.param, victim, direct, wire)


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("experiment", [set_if, apply, held_apply], indirect=True)
def test_every_byte_of_a_publish(
    experiment: Experiment, way: Way, database: psycopg.Connection, schema: str
) -> None:
    witness = Witness(database, schema, "victim")
    experiment.warm()
    size = experiment.measure(way)
    for after in range(size + 1):
        experiment.warm()
        experiment.publish(WireFault.CUT, way, after)
    losses, duplicates = experiment.check(witness)
    print(f"{size + 1} cuts {way.value}: {dict(experiment.outcomes)}, ", end="")
    print(f"{losses} losses, {duplicates} duplicates")
    assert (losses, duplicates) == (0, 0)
    assert experiment.outcomes["Unknown"] >= size - 1
    assert experiment.outcomes["Unavailable"] == 0


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("experiment", [apply], indirect=True)
def test_bytes_of_a_publish_that_connects_first(
    experiment: Experiment, way: Way, database: psycopg.Connection, schema: str
) -> None:
    witness = Witness(database, schema, "victim")
    experiment.warm()
    # The first cut ends the connection, so that the next publish begins with a handshake.
    experiment.publish(WireFault.CUT, way, 1)
    size = experiment.measure(way)
    experiment.publish(WireFault.CUT, way, 1)
    for after in range(0, size, 13):
        experiment.publish(WireFault.CUT, way, after)
    losses, duplicates = experiment.check(witness)
    print(f"cuts {way.value}, {size} bytes: {dict(experiment.outcomes)}, ", end="")
    print(f"{losses} losses, {duplicates} duplicates")
    assert (losses, duplicates) == (0, 0)
    assert experiment.outcomes["Unavailable"] > 5
