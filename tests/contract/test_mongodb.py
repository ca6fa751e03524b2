"""The MongoDB store keeps the whole contract on mongo-java-server, a stand-in for MongoDB.

The stand-in has no index for ranges, so that scans take long: they are in `make test-databases`.
"""

from __future__ import annotations

import pytest

from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    BulkContract,
    ConcurrencyContract,
    ConditionalContract,
    DurabilityContract,
    FaultContract,
    ForkSharedContract,
    OpenedByUrl,
    RowContract,
    WalkContract,
)
from lochan.testing.mongodb import GROUP, MISSING, shared_server
from tests.profile import PROFILE

SHORT = (RowContract, ConditionalContract, BulkContract, ConcurrencyContract, FaultContract)
FULL = (*PLAIN_CONTRACTS, DurabilityContract, WalkContract)
SUITES = (OpenedByUrl, *(FULL if PROFILE == "deep" else SHORT), ForkSharedContract)


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
class TestMongodb(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.url(server.fresh_database())
