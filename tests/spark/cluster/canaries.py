"""A token that must not appear anywhere: what a driver shows, and where else it could be.

`follow`, `shown` and `refusal` run in the process of a driver; the rest runs where the tests run.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

from lochan.base.errors import LochanError
from lochan.spark.history.functions import register_functions
from lochan.spark.lake import Lake
from tests.spark.cluster.suite import fresh, orders

# Every way in which driver, planners and executors use a server.
USES = ("suite:history_is_read_as_frames", "suite:history_is_read_in_sql", "canaries:follow")


def settings_for(folder: Path) -> dict[str, str]:
    """Settings with which Spark writes down as much as it can."""
    (folder / "events").mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def follow(lake: Lake) -> None:
    """Reads the changes of a branch as a stream, planned and read by workers of its own."""
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 4), table, branch=branch)
    seen: list[int] = []
    feed = lake.changes(branch, follow=True).where(F.col("name") == table)
    writer = feed.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
    with TemporaryDirectory() as folder:
        kept = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        kept.start().awaitTermination()
    assert not hasattr(lake.spark, "_jsparkSession") or seen == [1]


def shown(lake: Lake) -> list[str]:
    """Returns plans, options and settings as Spark shows them, and what our own objects show."""
    branch, table = fresh(lake)
    lake.write(orders(lake, 0, 4), table, branch=branch)
    register_functions(lake.spark)
    frames = [
        lake.refs(),
        lake.log(branch),
        lake.entries(branch),
        lake.diff("main", branch),
        lake.changes(branch, since="earliest"),
        lake.spark.sql(f"select * from lochan_log('{lake.uri}', '{branch}')"),
        lake.spark.read.format("lochan").options(uri=lake.uri, kind="log", ref=branch).load(),
        lake.read(table, ref=branch),
    ]
    texts = []
    for frame in frames:
        frame.collect()
        text = io.StringIO()
        with redirect_stdout(text):
            frame.explain(True)
        texts.append(text.getvalue())
    assert all("Physical Plan" in text for text in texts)
    settings = lake.spark.sql("SET -v").collect() + lake.spark.sql("SET").collect()
    ours = [lake, lake.client, lake.catalog, lake.catalog.properties, lake.files, vars(lake)]
    return [*texts, *map(str, settings), *map(repr, ours)]


def refusal(lake: Lake) -> list[str]:
    """Returns the texts of errors: of the driver, of planning, of executors, of a table."""
    found = []
    frames = (lake.client.config, lambda: lake.log("main").collect(), lambda: lake.read("a.b"))
    for use in frames:
        with pytest.raises((LochanError, PySparkException)) as raised:
            use()
        cause = raised.value.__cause__
        found.append(f"{raised.value!r} {raised.value} {cause!r}")
    return found


def files_with(word: str, folder: Path) -> list[str]:
    """Returns the files below a folder that hold a word."""
    return [str(file) for file in _files(folder) if word.encode() in file.read_bytes()]


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def events_of(folder: Path) -> bytes:
    """Returns the event logs."""
    return b"".join(file.read_bytes() for file in _files(folder / "events"))
