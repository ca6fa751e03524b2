"""PostgreSQL behind connections that break, stall and drip.

Cuts at every byte are in `test_cut_connections.py` and `test_kernel_cuts.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.testing.postgres import PostgresServer
from tests.stores.wire_fault_suite import WireFaultSuite


@pytest.mark.slow
class TestPostgresWire(WireFaultSuite):
    @pytest.fixture
    def address(self, server: PostgresServer) -> Callable[[int], str]:
        schema = server.fresh_schema()
        return lambda port: server.url(schema=schema, port=port, pool=4, statement_timeout_ms=1_000)
