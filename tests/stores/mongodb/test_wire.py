"""MongoDB's stand-in behind connections that break, stall and drip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lochan.stores.mongodb import client
from lochan.testing.mongodb import GROUP, MISSING, MongoServer, shared_server
from tests.stores.wire_fault_suite import WireFaultSuite


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
class TestMongodbWire(WireFaultSuite):
    @pytest.fixture
    def server(self) -> MongoServer:
        return shared_server() or pytest.skip(MISSING)

    @pytest.fixture
    def address(self, server: MongoServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
        monkeypatch.setattr(client, "ANSWER_TIMEOUT_MS", 1_500)
        database = server.fresh_database()
        return lambda port: server.url(database, port=port)
