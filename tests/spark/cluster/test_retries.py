"""Tasks that fail and are tried again: `local[2,3]`, where Spark gives a task three attempts."""

from __future__ import annotations

import pytest

from tests.spark.cluster.retries import NAMES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(drive):
    return drive("local[2,3]", settings={"spark.sql.shuffle.partitions": "2"})


@pytest.mark.parametrize("promise", NAMES)
def test_with_tasks_that_fail(driver, promise):
    driver.call(f"retries:{promise}")
