"""Iceberg's own runtime in the session of a measurement, with a catalog on the lake's server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from benchmarks.measure import emit
from lochan.base.errors import Unavailable
from lochan.spark import Lake, session

RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
CATALOG: Final = "nessie"
_SPARK: Final = "4.1."


def session_with_runtime(cores: int) -> SparkSession:
    """Starts a session with the runtime; without it, and with a printed line, if it is missing."""
    if not pyspark.__version__.startswith(_SPARK):
        emit("spark_runtime", skipped=f"Iceberg has no runtime for Spark {pyspark.__version__}")
        return session("benchmark", master=f"local[{cores}]")
    try:
        settings = {"spark.jars.packages": RUNTIME}
        return session("benchmark", master=f"local[{cores}]", settings=settings)
    except Unavailable:
        emit("spark_runtime", skipped=f"{RUNTIME} could not be fetched; it is left out")
        return session("benchmark", master=f"local[{cores}]")


def use_catalog(lake: Lake, warehouse: Path) -> bool:
    """Adds the catalog and a namespace to a session; returns whether it has the runtime."""
    if lake.spark.conf.get("spark.jars.packages", "") != RUNTIME:
        return False
    prefix = f"spark.sql.catalog.{CATALOG}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "nessie",
        f"{prefix}.uri": f"{lake.uri}/api/v2",
        f"{prefix}.ref": "main",
        f"{prefix}.warehouse": str(warehouse),
        f"{prefix}.cache-enabled": "false",
    }
    for name, value in settings.items():
        lake.spark.conf.set(name, value)
    lake.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
    return True
