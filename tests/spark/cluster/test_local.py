"""The suite of all kinds of sessions on `local[2]`, in this process."""

from __future__ import annotations

import pytest

from lochan.spark.lake import Lake
from tests.spark.cluster.suite import NAMES, SUITE


@pytest.fixture(scope="module")
def shared_lake(spark, catalog_server, folder):
    with Lake(spark, catalog_server, warehouse=str(folder / "warehouse")) as made:
        yield made


@pytest.mark.parametrize("promise", SUITE, ids=NAMES)
def test_on_threads_of_one_process(shared_lake, promise):
    promise(shared_lake)
