"""The Cassandra store keeps the whole contract on a real Cassandra of one node.

Each table of a test takes a third of a second: those of scans and walks are in the deep profile.
"""

from __future__ import annotations

import pytest

from lochan.testing.cassandra import GROUP, MISSING, shared_server
from lochan.testing.contracts import (
    PLAIN_CONTRACTS,
    ConcurrencyContract,
    ConditionalContract,
    DurabilityContract,
    FaultContract,
    ForkSharedContract,
    OpenedByUrl,
    RowContract,
    WalkContract,
)
from tests.profile import PROFILE

SHORT = (RowContract, ConditionalContract, ConcurrencyContract, FaultContract)
FULL = (*PLAIN_CONTRACTS, DurabilityContract, WalkContract)
SUITES = (OpenedByUrl, *(FULL if PROFILE == "deep" else SHORT), ForkSharedContract)


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
class TestCassandra(*SUITES):  # type: ignore[misc]
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.fresh_url()
