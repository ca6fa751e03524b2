"""The suite on executors that are processes: everything that travels is really pickled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.cluster.suite import ESSENTIAL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(drive):
    import pyspark

    # The package knows where it is, but executors are started by a script that asks this variable.
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent)}
    few = {"spark.sql.shuffle.partitions": "2"}
    return drive("local-cluster[2,1,1024]", settings=few, variables=home)


@pytest.mark.parametrize("promise", ESSENTIAL)
def test_on_executors_of_their_own(driver, promise):
    driver.call(f"suite:{promise}")
