"""Cassandra behind connections that break, stall and drip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.stores.cassandra import client
from lochan.testing.cassandra import GROUP, MISSING, CassandraServer, shared_server
from tests.stores.wire_fault_suite import WireFaultSuite

# A black hole lasts until heartbeats find it, and the driver connects three times afterwards.
SHORTER_S = {
    "CONNECT_TIMEOUT_S": 0.7,
    "HEARTBEAT_EVERY_S": 0.4,
    "HEARTBEAT_TIMEOUT_S": 0.6,
    "RECONNECT_S": 0.05,
    "REQUEST_TIMEOUT_S": 1.5,
}


@pytest.mark.xdist_group(GROUP)
class TestCassandraWire(WireFaultSuite):
    faults_apart_s = 1.0

    @pytest.fixture
    def server(self) -> CassandraServer:
        return shared_server() or pytest.skip(MISSING)

    @pytest.fixture
    def address(
        self, server: CassandraServer, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int], str]:
        for name, value in SHORTER_S.items():
            monkeypatch.setattr(client, name, value)
        table = server.fresh_table()
        return lambda port: server.url(port=port, table=table)
