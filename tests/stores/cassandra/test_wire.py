"""Cassandra behind connections that break, stall and drip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.stores.cassandra import client
from lochan.testing.cassandra import GROUP, MISSING, CassandraServer, shared_server
from tests.stores.wire_fault_suite import WireFaultSuite


@pytest.mark.xdist_group(GROUP)
class TestCassandraWire(WireFaultSuite):
    @pytest.fixture
    def server(self) -> CassandraServer:
        return shared_server() or pytest.skip(MISSING)

    @pytest.fixture
    def address(
        self, server: CassandraServer, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int], str]:
        monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", 1.5)
        monkeypatch.setattr(client, "HEARTBEAT_EVERY_S", 0.5)
        monkeypatch.setattr(client, "HEARTBEAT_TIMEOUT_S", 1.0)
        table = server.fresh_table()
        return lambda port: server.url(port=port, table=table)
