"""DynamoDB behind connections that break, stall and drip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.stores.dynamodb import client
from lochan.testing.dynamodb import MISSING, DynamoServer, shared_server
from tests.stores.wire_fault_suite import WireFaultSuite


@pytest.mark.slow
@pytest.mark.xdist_group("dynamodb")
class TestDynamodbWire(WireFaultSuite):
    @pytest.fixture
    def server(self) -> DynamoServer:
        return shared_server() or pytest.skip(MISSING)

    @pytest.fixture
    def address(
        self, server: DynamoServer, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[int], str]:
        monkeypatch.setattr(client, "READ_TIMEOUT_S", 1.5)
        table = server.fresh_table()
        return lambda port: server.url(table, port=port)
