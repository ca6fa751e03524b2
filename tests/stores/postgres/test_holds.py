"""Holds: the row is locked against other servers, and nothing is left by who vanishes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lochan.base.errors import Invalid, Unavailable
from lochan.kv.store import ABSENT, Adds, SetIf, Won
from lochan.testing.contracts.sample_rows import (
    NOTHING,
    OBJECTS,
    REFERENCES,
    create,
    fetch,
    must_win,
)
from tests.stores.postgres.conftest import Open
from tests.stores.postgres.witness import Witness


def test_others_wait_for_the_row_and_see_what_was_applied(
    opened: Open, database: psycopg.Connection, schema: str
) -> None:
    mine, theirs = opened(), opened()
    create(mine, b"main", b"one")
    witness = Witness(database, schema)
    held = mine.hold(REFERENCES, b"main")
    assert held.entry == fetch(mine, b"main"), "readers do not wait"
    with ThreadPoolExecutor(1) as thread:
        waits = thread.submit(theirs.hold, REFERENCES, b"main")
        witness.wait_until_one_waits()
        assert held.entry is not None
        row = SetIf(REFERENCES, b"main", b"two", held.entry.stamp)
        stamp = must_win(held.apply(Adds([(OBJECTS, b"object", b"")], 1), row))
        second = waits.result()
    assert second.entry is not None
    assert (second.entry.value, second.entry.stamp) == (b"two", stamp)
    must_win(second.apply(NOTHING, SetIf(REFERENCES, b"main", b"three", stamp)))
    assert fetch(mine, b"object", OBJECTS).value == b""


def test_a_released_row_is_free_at_once_and_nothing_was_written(opened: Open) -> None:
    mine, theirs = opened(), opened(lock_timeout_ms=100)
    stamp = create(mine, b"main", b"one")
    held = mine.hold(REFERENCES, b"main")
    with pytest.raises(Unavailable, match="55P03"):
        theirs.set_if(REFERENCES, b"main", b"two", stamp)
    held.release()
    held.release()
    must_win(theirs.set_if(REFERENCES, b"main", b"two", stamp))
    with pytest.raises(Unavailable, match="has ended"):
        held.apply(NOTHING, SetIf(REFERENCES, b"main", b"three", stamp))


def test_a_bad_apply_ends_the_hold_and_writes_nothing(opened: Open) -> None:
    store = opened(pool=1)
    stamp = create(store, b"main", b"one")
    held = store.hold(REFERENCES, b"main")
    with pytest.raises(Invalid):
        held.apply(Adds([(OBJECTS, b"", b"")], 1), SetIf(REFERENCES, b"main", b"two", stamp))
    must_win(store.set_if(REFERENCES, b"main", b"two", stamp))


def test_an_apply_that_loses_under_the_lock_writes_nothing(opened: Open) -> None:
    store = opened(pool=1)
    create(store, b"main", b"one")
    held = store.hold(REFERENCES, b"main")
    adds = Adds([(OBJECTS, b"object", b"")], 1)
    assert not isinstance(held.apply(adds, SetIf(REFERENCES, b"main", b"two", ABSENT)), Won)
    assert store.get(OBJECTS, b"object") is None
    assert fetch(store, b"main").value == b"one"


@pytest.mark.slow
def test_a_hold_that_is_not_ended_is_ended_after_its_time_out(opened: Open) -> None:
    mine, theirs = opened(pool=1), opened(lock_timeout_ms=9_000)
    stamp = create(theirs, b"main", b"one")
    held = mine.hold(REFERENCES, b"main")
    must_win(theirs.set_if(REFERENCES, b"main", b"two", stamp))
    assert fetch(mine, b"main").value == b"two", "its connection is in the pool again"
    with pytest.raises(Unavailable, match="has ended"):
        held.apply(NOTHING, SetIf(REFERENCES, b"main", b"three", stamp))
    assert fetch(mine, b"main").value == b"two"
