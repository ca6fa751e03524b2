"""The DynamoDB store keeps the whole contract on DynamoDB Local."""

from __future__ import annotations

import pytest

from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    DurabilityContract,
    ForkSharedContract,
    OpenedByUrl,
    WalkContract,
)
from lochan.testing.dynamodb import MISSING, shared_server

SUITES = (OpenedByUrl, *PLAIN_CONTRACTS, DurabilityContract, ForkSharedContract, WalkContract)


@pytest.mark.slow
@pytest.mark.xdist_group("dynamodb")
class TestDynamodb(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.url(server.fresh_table())
