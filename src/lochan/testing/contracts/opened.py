"""Fixtures for suites on a store that has an address: it needs one more, `url` of a fresh store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lochan.assembly import open_store
from lochan.kv.store import Store


class OpenedByUrl:
    """`store` is opened from `url`; `reopen` closes the last one and opens it again."""

    @pytest.fixture
    def stores(self, url: str) -> Iterator[list[Store]]:
        stores = [open_store(url)]
        yield stores
        stores[-1].close()

    @pytest.fixture
    def store(self, stores: list[Store]) -> Store:
        return stores[-1]

    @pytest.fixture
    def reopen(self, stores: list[Store], url: str) -> Callable[[], Store]:
        def again() -> Store:
            stores[-1].close()
            stores.append(open_store(url))
            return stores[-1]

        return again
