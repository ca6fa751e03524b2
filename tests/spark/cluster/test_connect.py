"""The suite through Spark Connect: the session is a client, and there is no context and no JVM."""

from __future__ import annotations

import pytest

from tests.spark.cluster.suite import NAMES
from tests.spark.connect_server import ConnectServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def remote(java):
    """A server of its own: the one that a session starts by itself has a port that others want."""
    server = ConnectServer()
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def driver(remote, drive):
    made = drive(remote, settings={"spark.sql.shuffle.partitions": "2"})
    assert made.kind.startswith("pyspark.sql.connect.")
    return made


@pytest.mark.parametrize("promise", NAMES)
def test_through_connect(driver, promise):
    driver.call(f"suite:{promise}")
