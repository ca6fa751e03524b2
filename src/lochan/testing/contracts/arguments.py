"""Bad arguments: every call refuses them as Invalid, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from lochan.base.errors import Invalid
from lochan.base.limits.requests import SCAN_ENTRIES_MAX
from lochan.base.limits.storage import PARTITION_BYTES_MAX, STORE_KEY_BYTES_MAX
from lochan.kv.store import ABSENT, PRESENT, Adds, SetIf, Store
from lochan.testing.contracts.sample_rows import OBJECTS, REFERENCES, create, whole_store

# Values of wrong types too: the checks run in production, where types are not enforced.
BAD_PARTITIONS: tuple[Any, ...] = (b"", b"p" * (PARTITION_BYTES_MAX + 1), "text", None, 7)
BAD_KEYS: tuple[Any, ...] = (b"", b"k" * (STORE_KEY_BYTES_MAX + 1), "text", None, bytearray(b"k"))
BAD_VALUES: tuple[Any, ...] = (None, "text", bytearray(b"v"), 7)
BAD_EXPECTATIONS: tuple[Any, ...] = (None, "absent", 7, True)
BAD_LIMITS: tuple[Any, ...] = (0, -1, SCAN_ENTRIES_MAX + 1, None, "10")
BAD_BOUNDS: tuple[Any, ...] = ("text", 7)
BAD_HALF_DAYS: tuple[Any, ...] = (-1, 2**32, None, "1", 1.5)

GOOD = (REFERENCES, b"good", b"good")
OBJECT = (OBJECTS, b"object", b"body")

Call = Callable[[], object]


def bad_names(store: Store) -> Iterator[Call]:
    """Every call with a partition or a key that cannot be."""
    names: list[tuple[Any, Any]] = [(where, b"key") for where in BAD_PARTITIONS]
    names += [(REFERENCES, key) for key in BAD_KEYS]
    for where, key in names:
        item = (where, key, b"v")
        yield partial(store.get, where, key)
        yield partial(store.get_many, [(REFERENCES, b"good"), (where, key)])
        yield partial(store.put_many, [GOOD, item])
        yield partial(store.add_many, Adds([GOOD, item], 1))
        yield partial(store.set_if, where, key, b"v", ABSENT)
        yield partial(store.delete, where, key)
        yield partial(store.delete_if, where, key, PRESENT)
        yield partial(store.apply, Adds([OBJECT], 1), SetIf(where, key, b"v", ABSENT))
        yield partial(store.apply, Adds([OBJECT, item], 1), SetIf(*GOOD, expected=ABSENT))
        yield partial(store.hold, where, key)
    for where in BAD_PARTITIONS:
        yield partial(store.drop_partition, where)
        yield partial(store.scan, where, b"", None, 10)


def bad_values(store: Store) -> Iterator[Call]:
    """Every write with what is no value, no expectation or no half-day."""
    for value in BAD_VALUES:
        item = (REFERENCES, b"bad", value)
        yield partial(store.put_many, [GOOD, item])
        yield partial(store.add_many, Adds([GOOD, item], 1))
        yield partial(store.set_if, REFERENCES, b"bad", value, ABSENT)
        yield partial(store.apply, Adds([OBJECT], 1), SetIf(REFERENCES, b"bad", value, ABSENT))
        yield partial(store.apply, Adds([OBJECT, item], 1), SetIf(*GOOD, expected=ABSENT))
    for expected in BAD_EXPECTATIONS:
        yield partial(store.set_if, *GOOD, expected)
        yield partial(store.delete_if, REFERENCES, b"there", expected)
        yield partial(store.apply, Adds([OBJECT], 1), SetIf(*GOOD, expected=expected))
    for half_day in BAD_HALF_DAYS:
        yield partial(store.add_many, Adds([GOOD], half_day))
        yield partial(store.apply, Adds([OBJECT], half_day), SetIf(*GOOD, expected=ABSENT))
    yield partial(store.delete_if, REFERENCES, b"there", ABSENT)
    yield partial(store.apply, Adds([GOOD], 1), SetIf(*GOOD, expected=ABSENT))
    yield partial(store.apply_each, [(Adds([OBJECT], 1), SetIf(*GOOD, expected=ABSENT))] * 2)


def bad_numbers(store: Store) -> Iterator[Call]:
    """Scans and flushes with what is no bound, no limit or no epoch."""
    for limit in BAD_LIMITS:
        yield partial(store.scan, REFERENCES, b"", None, limit)
    for bound in BAD_BOUNDS:
        yield partial(store.scan, REFERENCES, bound, None, 10)
        yield partial(store.scan, REFERENCES, b"", bound, 10)
    nothing: Any = None
    yield partial(store.scan, REFERENCES, nothing, None, 10)
    epochs: tuple[Any, ...] = (-1, store.epoch() + 1, None, "1")
    for epoch in epochs:
        yield partial(store.flush, epoch)


class ArgumentContract:
    """What no store accepts."""

    @pytest.mark.parametrize("bad", [bad_names, bad_values, bad_numbers])
    def test_bad_arguments_are_invalid_and_change_nothing(
        self, store: Store, bad: Callable[[Store], Iterator[Call]]
    ) -> None:
        create(store, b"there", b"value")
        before = whole_store(store)
        epoch = store.epoch()
        calls = 0
        for call in bad(store):
            with pytest.raises(Invalid):
                call()
            calls += 1
        assert calls > 8
        assert whole_store(store) == before
        assert store.epoch() == epoch
