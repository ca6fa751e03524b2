"""Reads through Connect by workers that have not installed us; prints what was found as JSON.

python -m tests.spark.elsewhere ADDRESS FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from lochan.spark.history.source import register
from lochan.spark.java import use_java
from lochan.spark.session import LOCAL_SETTINGS, OWN_SETTINGS


def hiding_python(folder: Path) -> str:
    """Makes an interpreter that finds what others have written, and not us."""
    ours = str(Path(__file__).parents[2] / "src")
    (folder / "hide").mkdir()
    (folder / "hide" / "sitecustomize.py").write_text(
        f"import sys\nsys.path[:] = [each for each in sys.path if each != {ours!r}]\n"
    )
    made = folder / "python"
    lines = (
        "#!/bin/sh",
        f'export PYTHONPATH="{folder / "hide"}:$PYTHONPATH"',
        f'exec "{sys.executable}" "$@"',
    )
    made.write_text("\n".join(lines) + "\n")
    made.chmod(0o755)
    return str(made)


def main(uri: str, place: str) -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = hiding_python(Path(place))
    use_java()
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**OWN_SETTINGS, **LOCAL_SETTINGS}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found: dict[str, object] = {}
    try:
        reader = spark.read.format("lochan").options(uri=uri, kind="changes")
        try:
            reader.load().count()
        except pyspark.errors.PySparkException:
            found["unknown before"] = True
        register(spark, ship=True)
        register(spark, ship=True)
        found["changes"] = reader.load().count()
        found["lochan_log"] = spark.sql(f"SELECT * FROM lochan_log('{uri}', 'main')").count()
    finally:
        spark.stop()
    print("FOUND " + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
