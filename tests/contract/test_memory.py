"""The memory store keeps the whole contract but survival, which it does not claim."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lochan.assembly import open_store
from lochan.kv.store import Store
from lochan.testing.contracts import PLAIN_CONTRACTS, ForkRefusedContract, WalkContract


class TestMemory(*PLAIN_CONTRACTS, ForkRefusedContract, WalkContract):  # type: ignore[misc]
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = open_store("memory:")
        yield store
        store.close()
