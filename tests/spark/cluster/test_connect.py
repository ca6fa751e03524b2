"""The suite through Spark Connect: the session is a client, and there is no context and no JVM."""

from __future__ import annotations

import pytest

from tests.spark.cluster.suite import NAMES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(drive):
    made = drive("connect:local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    assert made.kind.startswith("pyspark.sql.connect.")
    return made


@pytest.mark.parametrize("promise", NAMES)
def test_through_connect(driver, promise):
    driver.call(f"suite:{promise}")
