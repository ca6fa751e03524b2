"""Servers with the lakeFS API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.lakefs.lakefs_bench import LakefsBench, LakefsRepository, lakefs_bench


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakefsBench]:
    """A server for tests that use repositories of their own."""
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "imported").mkdir()
    with lakefs_bench(folder, imports=[f"file://{folder / 'imported'}"]) as one:
        yield one


@pytest.fixture
def repository(shared: LakefsBench) -> LakefsRepository:
    """A repository for one test."""
    return shared.repository()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LakefsBench]:
    """A server that was not set up."""
    with lakefs_bench(tmp_path, set_up=False) as one:
        yield one
