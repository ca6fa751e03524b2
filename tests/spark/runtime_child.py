"""Reads tables with Iceberg's own Spark runtime, in a session of its own; prints their rows.

python -m tests.spark.runtime_child COORDINATES METADATA_LOCATION…

A location may end in `#files`, for what the runtime knows of the table's files.
"""

from __future__ import annotations

import json
import sys

from lochan.spark import session


def main() -> None:
    coordinates, *places = sys.argv[1:]
    settings = {"spark.jars.packages": coordinates, "spark.sql.session.timeZone": "UTC"}
    spark = session("runtime", master="local[1]", settings=settings)
    found = []
    for place in places:
        frame = spark.read.format("iceberg").load(place)
        if place.endswith("#files"):
            frame = frame.select("file_path", "partition")
        found.append(
            [json.dumps(json.loads(row), sort_keys=True) for row in frame.toJSON().collect()]
        )
    sys.stdout.write(json.dumps([sorted(each) for each in found]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
