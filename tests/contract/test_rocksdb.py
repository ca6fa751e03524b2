"""The RocksDB store keeps the whole contract and outlives its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lochan.assembly import open_store
from lochan.kv.store import Store
from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    DurabilityContract,
    ForkRefusedContract,
    WalkContract,
)

SUITES = (*PLAIN_CONTRACTS, DurabilityContract, ForkRefusedContract, WalkContract)


class TestRocksdb(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def stores(self, tmp_path: Path) -> Iterator[list[Store]]:
        stores = [open_store(f"rocksdb:{tmp_path / 'store'}")]
        yield stores
        stores[-1].close()

    @pytest.fixture
    def store(self, stores: list[Store]) -> Store:
        return stores[-1]

    @pytest.fixture
    def reopen(self, stores: list[Store], tmp_path: Path) -> Callable[[], Store]:
        def again() -> Store:
            stores[-1].close()
            stores.append(open_store(f"rocksdb:{tmp_path / 'store'}"))
            return stores[-1]

        return again
