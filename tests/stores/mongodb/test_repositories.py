"""Repositories on MongoDB's stand-in keep what the kernel and staged files promise."""

from __future__ import annotations

import pytest

from lochan.testing.contracts import OpenedByUrl
from lochan.testing.mongodb import GROUP, MISSING, shared_server
from tests.stores.repository_suite import RepositorySuite


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
class TestMongodbRepositories(OpenedByUrl, RepositorySuite):
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.url(server.fresh_database())
