"""The PostgreSQL store keeps the whole contract on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lochan.assembly import open_store
from lochan.kv.store import Store
from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    DurabilityContract,
    ForkSharedContract,
    WalkContract,
)
from lochan.testing.postgres import MISSING, find_binaries, shared_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_binaries() is None, reason=MISSING),
]


SUITES = (*PLAIN_CONTRACTS, DurabilityContract, ForkSharedContract, WalkContract)


class TestPostgres(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def url(self) -> str:
        server = shared_server()
        assert server is not None
        return server.url(schema=server.fresh_schema(), pool=4)

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
