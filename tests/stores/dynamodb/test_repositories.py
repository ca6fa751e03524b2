"""Repositories on DynamoDB keep what the kernel and staged files promise."""

from __future__ import annotations

import pytest

from lochan.testing.contracts import OpenedByUrl
from lochan.testing.dynamodb import MISSING, shared_server
from tests.stores.repository_suite import RepositorySuite


@pytest.mark.xdist_group("dynamodb")
class TestDynamodbRepositories(OpenedByUrl, RepositorySuite):
    @pytest.fixture
    def url(self) -> str:
        server = shared_server() or pytest.skip(MISSING)
        return server.url(server.fresh_table())
