"""The same catalog in three forms: on two embedded stores, and on a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lochan.iceberg import LochanCatalog
from tests.client.serving import serving


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """A directory for tables."""
    return f"file://{tmp_path / 'lake'}"


@pytest.fixture
def address() -> Iterator[str]:
    """A server with an empty repository."""
    with serving() as url:
        yield url


@pytest.fixture(params=["memory", "rocksdb", "server"])
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path, warehouse: str
) -> Iterator[LochanCatalog]:
    """The catalog of an empty repository."""
    if request.param == "server":
        uri = request.getfixturevalue("address")
    else:
        uri = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path / 'store'}"
    with LochanCatalog("lake", uri=uri, warehouse=warehouse) as opened:
        yield opened


@pytest.fixture
def local(warehouse: str) -> Iterator[LochanCatalog]:
    """A catalog in memory, for what does not depend on where the repository is."""
    with LochanCatalog("lake", uri="memory:", warehouse=warehouse) as opened:
        yield opened
