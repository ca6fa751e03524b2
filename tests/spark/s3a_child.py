"""Writes and reads Parquet by Hadoop's S3A, in a session of its own; prints what came of it.

python -m tests.spark.s3a_child COORDINATES ENDPOINT ACCESS_KEY SECRET ROOT < CASES

CASES is a JSON object: for each case an access key, its secret, an operation, a bucket and a key.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from lochan.spark import session


def refusal(work: Callable[[], Any]) -> str:
    """Returns the message of the error that a call raises, empty if it raises none."""
    try:
        work()
    except Exception as error:
        return str(error)
    return ""


def exceptions_of(spark: SparkSession, cases: dict[str, list[str]]) -> dict[str, str]:
    """Returns the Java exception of each case: its class and its message."""
    return {case: _exception(spark, *words) for case, words in cases.items()}


def _exception(
    spark: SparkSession, access_key: str, secret: str, operation: str, bucket: str, key: str
) -> str:
    jvm: Any = spark._jvm
    settings = jvm.org.apache.hadoop.conf.Configuration(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    settings.set("fs.s3a.access.key", access_key)
    settings.set("fs.s3a.secret.key", secret)
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://{bucket}/{key}")
    try:
        files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), settings)
        try:
            _ask(files, operation, path)
        finally:
            files.close()
    except Py4JJavaError as error:
        return str(error.java_exception.toString())
    return ""


def _ask(files: Any, operation: str, path: Any) -> None:
    if operation == "read":
        files.open(path).read()
    elif operation == "write":
        files.create(path, True).close()
    elif operation == "remove":
        files.delete(path, False)
    else:
        files.listStatus(path)


def main() -> None:
    coordinates, endpoint, key, secret, root = sys.argv[1:]
    s3a = {
        "endpoint": endpoint,
        "access.key": key,
        "secret.key": secret,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "attempts.maximum": "1",
        "retry.limit": "1",
        # So that a few megabytes are an upload in parts.
        "multipart.size": "5M",
        "multipart.threshold": "5M",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
    settings["spark.jars.packages"] = coordinates
    spark = session("s3a", master="local[2]", settings=settings)
    frame = spark.range(300_000).selectExpr("id", "id % 3 AS part", "sha2(string(id), 256) AS text")
    found: dict[str, Any] = {}
    for mode in ("errorifexists", "overwrite"):
        frame.coalesce(1).write.mode(mode).parquet(f"{root}/whole")
        found[mode] = spark.read.parquet(f"{root}/whole").count()
    frame.limit(30).write.partitionBy("part").csv(f"{root}/parts")
    found["parts"] = spark.read.csv(f"{root}/parts").select("part").distinct().count()
    found["again"] = refusal(lambda: frame.write.parquet(f"{root}/whole"))
    found["absent"] = refusal(lambda: spark.read.parquet(f"{root}/none"))
    nowhere = root.replace("/main/", "/nowhere/")
    found["branch"] = refusal(lambda: frame.write.parquet(f"{nowhere}/x"))
    found["exceptions"] = exceptions_of(spark, json.load(sys.stdin))
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
