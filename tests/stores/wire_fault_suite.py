"""Faults on the wire between a networked store and its database: a suite for its test class.

The class provides two fixtures: `server`, a running database with a `port`, and `address`, which
returns the address of one fresh store by the port of the database, or of the proxy before it.
`TestDynamodbWire` in `tests/stores/dynamodb` is an example. A black hole ends when the store gives
up, so a class shortens the time-outs of its store if they are longer than a second or two.
Holds no test that is run by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lochan.assembly import open_store
from lochan.base.errors import Exhausted, LochanError, Unavailable, Unknown
from lochan.embedded import open_repository
from lochan.kv.store import ABSENT, Adds, Outcome, SetIf, Store, Won
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, must_win
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.fleet.check import FleetCheck
from tests.fleet.operations import prepare
from tests.fleet.runs import running, wait_for_writes
from tests.fleet.wires import FAULTS, DrawnFaults
from tests.profile import counted

KEY = b"main"
LATE = "late"
"""Bytes are delayed until the store has given up and the outcome is settled."""

MISHAPS = (*FAULTS, LATE)
SLOW = (WireFault.DROP, LATE)
"""They last until a time-out of the store."""

PLACES = counted(4, 150)
PLACES_SLOW = counted(1, 15)
READS = counted(5, 120)

CLIENTS = 4
WRITES = counted(200, 3_000)

# Each dripping byte of a write of some hundred bytes.
PAUSE_S = 0.001

MET_S = 1.0

REFUSED = (Unavailable, Exhausted)


class WireFaultSuite:
    """An answer over a bad wire states what has happened, or that it is unknown."""

    faults_apart_s = 0.1
    """The most time between two faults of a history: enough for the driver to connect again."""

    @pytest.fixture
    def wire(self, server: Any) -> Iterator[FaultyWire]:
        with FaultyWire(server.port, PAUSE_S) as wire:
            yield wire

    @pytest.fixture
    def writes(
        self, server: Any, address: Callable[[int], str], wire: FaultyWire
    ) -> Iterator[WiredWrites]:
        direct, victim = open_store(address(server.port)), open_store(address(wire.port))
        with ThreadPoolExecutor(1) as threads:
            yield WiredWrites(direct, victim, wire, threads)
        wire.release()
        victim.close()
        direct.close()

    @pytest.mark.parametrize("way", Way, ids=lambda one: one.name.lower())
    @pytest.mark.parametrize("mishap", MISHAPS, ids=lambda one: getattr(one, "value", one))
    def test_a_write_has_the_effect_that_its_outcome_states(
        self, writes: WiredWrites, mishap: WireFault | str, way: Way
    ) -> None:
        pick = Random(f"{mishap} {way}")
        size = writes.measure(way)
        places = PLACES_SLOW if mishap in SLOW else PLACES
        for _ in range(places):
            writes.write(mishap, way, pick.randrange(size))
        writes.check()
        # An answer may be a byte shorter than the one that was measured.
        assert writes.happened > places // 2
        if mishap in (WireFault.DRIP, WireFault.DELAY):
            assert writes.outcomes["Won"], writes.outcomes

    @pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.value)
    def test_a_read_is_right_or_refused(self, writes: WiredWrites, fault: WireFault) -> None:
        pick = Random(str(fault))
        writes.measure(Way.TO_SERVER)
        for _ in range(1 if fault is WireFault.DROP else READS):
            writes.read(fault, pick.choice(tuple(Way)), pick.randrange(200))

    @pytest.mark.parametrize("seed", range(counted(1, 3)))
    def test_a_history_through_drawn_faults_loses_nothing_and_does_nothing_twice(
        self,
        server: Any,
        address: Callable[[int], str],
        wire: FaultyWire,
        seed: int,
        tmp_path: Path,
        record_property: Any,
    ) -> None:
        with open_repository(address(server.port), data=tmp_path) as direct:
            recorded = prepare(direct)
            with (
                open_repository(address(wire.port), data=tmp_path) as wired,
                DrawnFaults([wire], seed, apart_s=self.faults_apart_s, lasting_s=0.4) as faults,
                running([wired], recorded, CLIENTS, seed),
            ):
                wait_for_writes(recorded, WRITES)
            check = FleetCheck(direct, recorded)
            check.run()
            assert not check.wrong, check.wrong[:5]
            assert not direct.check(history=True).findings
        assert faults.met
        scheme = address(0).partition(":")[0]
        record_property(
            "counted", f"{scheme} over a bad wire: {faults.summary()}; {check.summary()}"
        )


class WiredWrites:
    """Writes one row again and again, each time through a mishap; then settles the outcome."""

    def __init__(
        self, direct: Store, victim: Store, wire: FaultyWire, threads: ThreadPoolExecutor
    ) -> None:
        self._direct = direct
        self._victim = victim
        self._wire = wire
        self._threads = threads
        self._number = 0
        self.happened = 0
        self.outcomes: Counter[str] = Counter()
        self._stamp = must_win(direct.set_if(REFERENCES, KEY, b"start", ABSENT))

    def measure(self, way: Way) -> int:
        """Returns how many bytes a write sends that way on a connection that is used already."""
        for _ in range(2):
            self._wire.plan(WireFault.NOTHING, way, 0)
            adds, row = self._next()
            self._stamp = must_win(self._victim.apply(adds, row))
        return self._wire.passed(way)

    def write(self, mishap: WireFault | str, way: Way, after: int) -> None:
        """One write with one mishap, and what became of it."""
        self._warm()
        adds, row = self._next()
        late = mishap == LATE
        fault = mishap if isinstance(mishap, WireFault) else WireFault.DELAY
        self._wire.plan(fault, way, after)
        future = self._threads.submit(self._victim.apply, adds, row)
        if fault is WireFault.DELAY and not late:
            self._wait(future)
            self._wire.release()
        outcome = _outcome(future)
        # A reset reaches the store a moment before the proxy states it.
        self.happened += self._wire.happened.wait(MET_S)
        if not late:
            self._wire.release()
        self.outcomes[type(outcome).__name__] += 1
        self._settle(outcome, adds, row)
        # What was delayed until now comes too late: if it had an effect, the next write would lose.
        self._wire.release()

    def read(self, fault: WireFault, way: Way, after: int) -> None:
        """Reads the row and an object through a fault."""
        self._warm()
        names = [(REFERENCES, KEY), (OBJECTS, b"%06d" % self._number)]
        self._wire.plan(fault, way, after)
        future = self._threads.submit(self._victim.get_many, names)
        if fault is WireFault.DELAY:
            self._wait(future)
            self._wire.release()
        try:
            found = future.result()
        except REFUSED:
            return
        finally:
            self._wire.release()
        assert [one and one.value for one in found] == [b"%06d" % self._number, b"body"]

    def check(self) -> None:
        """Every write is there: the last one in the row, the object of each."""
        entry = self._direct.get(REFERENCES, KEY)
        assert entry is not None
        assert (entry.value, entry.stamp) == (b"%06d" % self._number, self._stamp)
        for number in range(1, self._number + 1):
            found = self._direct.get(OBJECTS, b"%06d" % number)
            assert found is not None, f"the object of write {number} is lost"

    def _settle(self, outcome: Outcome | LochanError, adds: Adds, row: SetIf) -> None:
        if isinstance(outcome, REFUSED):
            entry = self._direct.get(row.partition, row.key)
            assert entry is not None
            assert entry.stamp == self._stamp, f"{outcome!r} means: no effect"
            outcome = self._direct.apply(adds, row)
        elif isinstance(outcome, Unknown):
            # As the kernel does: the same write again, and a look at the row if that loses.
            outcome = self._direct.apply(adds, row)
            entry = self._direct.get(row.partition, row.key)
            if not isinstance(outcome, Won) and entry is not None and entry.value == row.value:
                outcome = Won(entry.stamp)
        assert not isinstance(outcome, LochanError)
        self._stamp = must_win(outcome)
        entry = self._direct.get(row.partition, row.key)
        assert entry is not None
        assert entry.value == row.value

    def _next(self) -> tuple[Adds, SetIf]:
        self._number += 1
        value = b"%06d" % self._number
        adds = Adds([(OBJECTS, value, b"body")], 1)
        return adds, SetIf(REFERENCES, KEY, value, self._stamp)

    def _warm(self) -> None:
        """Lets the store connect again, so that what follows sends the bytes of one call."""
        while True:
            try:
                self._victim.get(REFERENCES, KEY)
            except REFUSED:
                continue
            return

    def _wait(self, future: Future[Any]) -> None:
        """Returns when the fault has happened, or the call is over without it."""
        while not future.done() and not self._wire.happened.wait(PAUSE_S):
            pass


def _outcome(future: Future[Outcome]) -> Outcome | LochanError:
    try:
        return future.result()
    except (Unknown, *REFUSED) as error:
        return error
