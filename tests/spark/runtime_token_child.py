"""Uses Iceberg's Nessie catalog with a bearer token; prints rows, a plan and an error as JSON.

python -m tests.spark.runtime_token_child COORDINATES ADDRESS FOLDER, with the token in TOKEN
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from lochan.spark import session


def settings_of(name: str, uri: str, folder: str, token: str) -> dict[str, str]:
    """Returns the settings of a catalog."""
    below = {
        "type": "nessie",
        "uri": f"{uri}/api/v2",
        "ref": "main",
        "warehouse": f"{folder}/warehouse",
        "authentication.type": "BEARER",
        "authentication.token": token,
    }
    catalog = f"spark.sql.catalog.{name}"
    return {catalog: "org.apache.iceberg.spark.SparkCatalog"} | {
        f"{catalog}.{key}": value for key, value in below.items()
    }


def main(coordinates: str, uri: str, folder: str) -> None:
    settings = {
        "spark.jars.packages": coordinates,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
        **settings_of("lochan", uri, folder, os.environ["TOKEN"]),
        **settings_of("refused", uri, folder, f"{os.environ['TOKEN']}x"),
    }
    spark = session("token", master="local[1]", settings=settings)
    for statement in (
        "CREATE NAMESPACE lochan.shop",
        "CREATE TABLE lochan.shop.orders (id bigint)",
        "INSERT INTO lochan.shop.orders VALUES (1), (2)",
        "DELETE FROM lochan.shop.orders WHERE id = 1",
    ):
        spark.sql(statement)
    frame = spark.table("lochan.shop.orders")
    rows = [row.id for row in frame.collect()]
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain(True)
    refusal = ""
    try:
        spark.sql("CREATE NAMESPACE refused.more")
    except (PySparkException, Py4JError) as error:
        refusal = str(error)
    spark.stop()
    print(json.dumps({"rows": rows, "plan": plan.getvalue(), "refusal": refusal}))


if __name__ == "__main__":
    main(*sys.argv[1:])
