"""Worlds that are started once for a module: a server, and drivers in processes of their own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.conftest import LIBRARIES, SkippedModule


def pytest_pycollect_makemodule(module_path, parent):
    if all(find_spec(name) for name in LIBRARIES):
        return None
    return SkippedModule.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def java():
    """A Java that fits, or no test."""
    from lochan.base.errors import Unavailable
    from lochan.spark.java import use_java

    try:
        use_java()
    except Unavailable as error:
        pytest.skip(f"Java is missing: {error.message}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the processes of a module have their files and logs."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def catalog_server():
    """A server on a store in memory, for all tests of a module."""
    from lochan.spark.lake_server import open_server

    service = open_server("memory:")
    yield service.url
    service.close()


@pytest.fixture(scope="module")
def drive(java, folder, catalog_server):
    """Starts a driver on a master; its tables are in a folder of the module."""
    from tests.spark.cluster.drivers import Driver

    started = []

    def start(master: str, **more) -> Driver:
        warehouse = str(folder / "warehouse")
        started.append(Driver(folder, master, catalog_server, warehouse, **more))
        return started[-1]

    yield start
    for driver in started:
        driver.stop()
