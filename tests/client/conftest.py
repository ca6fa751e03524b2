"""The same catalog in four forms: embedded twice, and over HTTP twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lochan.client import Client
from lochan.embedded import open_repository
from tests.client.serving import StepByStep, serving


@pytest.fixture
def address() -> Iterator[str]:
    """A server with an empty repository."""
    with serving() as url:
        yield url


@pytest.fixture(params=["memory", "rocksdb", "client", "async client"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty repository."""
    if request.param == "memory":
        with open_repository("memory:") as repository:
            yield repository
    elif request.param == "rocksdb":
        with open_repository(f"rocksdb:{tmp_path / 'store'}") as repository:
            yield repository
    elif request.param == "client":
        with serving() as url, Client(url) as client:
            yield client
    else:
        with serving() as url:
            step_by_step = StepByStep(url)
            try:
                yield step_by_step
            finally:
                step_by_step.close()
