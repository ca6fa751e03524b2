"""Moves newest first, from a store that only scans upwards, against a sorted list."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.ids import EMPTY_ID, InstanceId
from lochan.codec.rows import Move, ReferenceRow
from lochan.kernel.moves import MoveLog
from lochan.kv.observe import ObservedStore
from lochan.kv.store import Page
from lochan.stores.memory.store import MemoryStore
from lochan.testing.call_counts import CallCounts
from lochan.testing.ports import ManualClock

INSTANCE = InstanceId(b"sixteen bytes...")


class ShortPages:
    """A store whose pages end early, and that does not know whether more follows."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def scan(self, place, start, end, limit):
        page = self._store.scan(place, start, end, max(1, limit // 2))
        if page.next_start is None and len(page.entries) == limit:
            return Page(page.entries, page.entries[-1].key + b"\0")
        return page


def filled(store, incarnations) -> MoveLog:
    log = MoveLog(store, INSTANCE)
    for incarnation, versions in incarnations.items():
        row = ReferenceRow(1, "name", "BRANCH", EMPTY_ID, 1, incarnation, b"", 0)
        log.copy(row, [Move(version, b"", b"", "assign", "", 0, b"") for version in versions])
    # Names around it are none of its business.
    for name in ("nam", "name2", "name/x"):
        row = ReferenceRow(1, name, "BRANCH", EMPTY_ID, 1, 3, b"", 0)
        log.copy(row, [Move(1, b"", b"", "assign", name, 0, b"")])
    return log


@pytest.mark.parametrize("wrap", [lambda store: store, ShortPages])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("limit", [1, 2, 10, 1_000])
def test_all_moves_come_in_falling_order(seed, limit, wrap):
    pick = Random(seed)
    incarnations = {
        incarnation: sorted(pick.sample(range(1, 10 ** pick.randint(2, 6)), pick.randint(1, 40)))
        for incarnation in pick.sample(range(1, 1_000), 4)
    }
    log = filled(wrap(MemoryStore()), incarnations)
    expected = sorted(
        ((incarnation, version) for incarnation, all_ in incarnations.items() for version in all_),
        reverse=True,
    )
    found, place = [], (1 << 62, 0)
    while page := log.fetch_before("name", *place, limit):
        assert len(page) <= limit
        found += [(incarnation, move.version) for incarnation, move in page]
        place = found[-1]
    assert found == expected


def test_few_moves_cost_one_scan_and_many_a_few():
    for count, calls in ((50, 1), (5_000, 2)):
        counts = CallCounts()
        store = MemoryStore()
        filled(store, {7: range(1, 10 * count, 10)})
        log = MoveLog(ObservedStore(store, counts, ManualClock()), INSTANCE)
        counts.reset()
        assert log.fetch_before("name", 7, 10 * count, 100)[0][1].version == 10 * count - 9
        assert counts.calls["scan"] <= calls


def test_a_move_is_read_back_as_it_was():
    log = filled(MemoryStore(), {1: [4]})
    ((incarnation, move),) = log.fetch_before("name", 1, 5, 10)
    assert incarnation == 1
    assert move == Move(4, b"", b"", "assign", "", 0, b"")
