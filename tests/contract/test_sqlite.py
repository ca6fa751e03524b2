"""The SQLite store keeps the whole contract and outlives its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    DurabilityContract,
    ForkRefusedContract,
    OpenedByUrl,
    WalkContract,
)

SUITES = (OpenedByUrl, *PLAIN_CONTRACTS, DurabilityContract, ForkRefusedContract, WalkContract)


class TestSqlite(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path / 'store.db'}"
