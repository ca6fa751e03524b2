"""The suite of faults on the wire finds stores that state wrongly what has happened."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lochan.base.errors import LochanError, Unavailable, Unknown
from lochan.kv.store import Adds, Outcome, SetIf, Store, Won
from lochan.testing.tcp_faults import FaultyWire, Way, WireFault
from tests.stores.postgres.conftest import Open
from tests.stores.wire_fault_suite import LATE, WiredWrites


class Wrong:
    """A store whose `apply` and `get_many` hide what has happened on the wire."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StatesNoEffect(Wrong):
    """Takes a lost answer for a write without effect."""

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        try:
            return self._store.apply(adds, condition)
        except Unknown as error:
            raise Unavailable(str(error)) from None


class StatesSuccess(Wrong):
    """Takes a lost answer for a write that was done."""

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        try:
            return self._store.apply(adds, condition)
        except Unknown:
            return Won(condition.expected)  # type: ignore[arg-type]


class SendsAgain(Wrong):
    """Sends a write twice, as a driver that repeats what has failed; the second one loses."""

    def apply(self, adds: Adds, condition: SetIf) -> Outcome:
        try:
            return self._store.apply(adds, condition)
        except Unknown:
            return self._store.apply(adds, condition)


class StatesAbsent(Wrong):
    """Takes an error for the absence of rows."""

    def get_many(self, names: Any) -> list[Any]:
        try:
            return self._store.get_many(names)
        except LochanError:
            return [None for _ in names]


@pytest.fixture
def wire(server: Any) -> Iterator[FaultyWire]:
    with FaultyWire(server.port) as wire:
        yield wire


@pytest.mark.parametrize(
    ("mutant", "mishap", "way"),
    [
        (StatesNoEffect, WireFault.CUT, Way.TO_CLIENT),
        (StatesNoEffect, LATE, Way.TO_CLIENT),
        (StatesSuccess, WireFault.CUT, Way.TO_SERVER),
        (StatesSuccess, WireFault.DROP, Way.TO_SERVER),
        (SendsAgain, WireFault.RESET, Way.TO_CLIENT),
    ],
)
def test_a_store_that_states_a_wrong_outcome_is_found(
    opened: Open,
    wire: FaultyWire,
    mutant: type[Wrong],
    mishap: WireFault | str,
    way: Way,
) -> None:
    victim = mutant(opened(port=wire.port, pool=2, statement_timeout_ms=1_000))
    with ThreadPoolExecutor(1) as threads:
        writes = WiredWrites(opened(pool=2), victim, wire, threads)
        writes.measure(way)
        with pytest.raises(AssertionError):
            writes.write(mishap, way, 1)


def test_a_store_that_states_that_rows_are_absent_is_found(opened: Open, wire: FaultyWire) -> None:
    victim = StatesAbsent(opened(port=wire.port, pool=1))
    with ThreadPoolExecutor(1) as threads:
        writes = WiredWrites(opened(pool=2), victim, wire, threads)
        writes.measure(Way.TO_SERVER)
        with pytest.raises(AssertionError):
            writes.read(WireFault.CUT, Way.TO_CLIENT, 1)
