"""Repositories on Cassandra keep what the kernel and staged files promise."""

from __future__ import annotations

import pytest

from lochan.testing.cassandra import GROUP, MISSING, shared_server
from lochan.testing.contracts import OpenedByUrl
from tests.stores.repository_suite import RepositorySuite


@pytest.mark.xdist_group(GROUP)
class TestCassandraRepositories(OpenedByUrl, RepositorySuite):
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.fresh_url()
