"""Repositories on SQLite keep what the kernel and staged files promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from lochan.testing.contracts import CrashContract, OpenedByUrl
from tests.profile import counted
from tests.stores.repository_suite import RepositorySuite


class TestSqliteRepositories(OpenedByUrl, RepositorySuite):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path / 'store.db'}"


@pytest.mark.slow
class TestSqliteKilled(CrashContract):
    cycles = counted(3, 50)

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path / 'store.db'}"
