"""The file system on a server of the test; fsspec finds it as if its entry point was installed."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest

from lochan.filesystem import LochanFileSystem
from tests.client.serving import serving


@pytest.fixture(scope="session", autouse=True)
def registered() -> None:
    """Registers the class; an environment that was made before has no entry point for it."""
    fsspec.register_implementation("lochan", LochanFileSystem, clobber=True)


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server with two repositories."""
    with serving("memory:", "other") as url:
        yield url


@pytest.fixture
def files(server: str) -> LochanFileSystem:
    """The file system on the server."""
    return LochanFileSystem(server, skip_instance_cache=True)
