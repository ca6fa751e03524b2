"""One gateway for all tests of a file; each test uses keys of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.s3.gateway import Gateway, gateway


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server for tests that use keys of their own."""
    with gateway(tmp_path_factory.mktemp("blocks"), "other") as one:
        yield one


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Gateway]:
    """A server for one test."""
    with gateway(tmp_path / "blocks") as one:
        yield one
