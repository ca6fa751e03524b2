"""How fast Spark reads a change feed: `python -m benchmarks.spark.feed --commits 100000`.

Commits are made in an embedded store, one table each, by many threads. Then a server is started on
it, and Spark reads the changes of all commits: once as a batch, once as a stream, each into a sink
that throws rows away. The first read of a session also starts Python workers, so a short one goes
before. Prints one line of JSON: rates are commits by wall time, in which server, Python workers and
Java share the machine; CPU time is that of all of them, and that of the server alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.http_load import usage
from lochan.embedded import open_repository
from lochan.model.commits import Put
from lochan.model.contents import IcebergTable
from lochan.spark import Lake, session

_WRITERS = 64


def make_commits(store: str, count: int) -> float:
    """Makes commits, each of which puts one table; returns how long it took, in seconds."""
    began = time.perf_counter()
    with open_repository(store) as repository:

        def commit(number: int) -> None:
            table = IcebergTable(
                metadata_location=f"s3://lake/warehouse/shop/t{number}/metadata/00000.json",
                snapshot_id=number,
                schema_id=0,
                spec_id=0,
                sort_order_id=0,
            )
            put = Put(key=(f"t{number:08d}",), content=table)
            repository.commits.commit("main", f"commit {number}", [put])

        with ThreadPoolExecutor(_WRITERS) as pool:
            for _ in pool.map(commit, range(count), chunksize=100):
                pass
    return time.perf_counter() - began


def read_batch(lake: Lake) -> None:
    lake.changes("main").write.format("noop").mode("overwrite").save()


def read_stream(lake: Lake, checkpoint: Path) -> None:
    """Reads everything that is there as a stream, and stops."""
    query = (
        lake.changes("main", follow=True)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


class Taken(NamedTuple):
    """The cost of one read: wall time, and CPU time of all processes and of the server alone."""

    wall_s: float
    cpu_s: float
    server_cpu_s: float


def take(lake: Lake, read: Callable[[], None]) -> Taken:
    server = lake._server.child

    def look() -> tuple[float, float, float]:
        everybody = usage.look([os.getpid()])
        alone = usage.look([] if server is None else [server.pid])
        return everybody.at, everybody.server_s, alone.server_s

    before = look()
    read()
    return Taken(*(late - early for early, late in zip(before, look(), strict=True)))


def figures(name: str, commits: int, taken: Sequence[Taken]) -> dict[str, Any]:
    """Returns rates and costs of several reads: the median, and every rate."""
    rates = [round(commits / one.wall_s) for one in taken]
    cpu_us = statistics.median(one.cpu_s for one in taken) * 1e6 / commits
    server_us = statistics.median(one.server_cpu_s for one in taken) * 1e6 / commits
    return {
        f"{name}_commits_per_s": round(statistics.median(rates)),
        f"{name}_rates": rates,
        f"{name}_cpu_us_per_commit": round(cpu_us),
        f"{name}_server_cpu_us_per_commit": round(server_us),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"rocksdb:{Path(folder) / 'store'}"
        made_s = make_commits(store, given.commits)
        spark = session("feed", master=f"local[{given.cores}]")
        with Lake(spark, store, warehouse=folder) as lake:
            lake.changes("main", since=f"main~{min(100, given.commits)}").collect()
            rows = lake.changes("main").count()
            repeats = range(given.repeats)
            batch = [take(lake, partial(read_batch, lake)) for _ in repeats]
            places = [Path(folder) / f"checkpoint{number}" for number in repeats]
            stream = [take(lake, partial(read_stream, lake, place)) for place in places]
        spark.stop()
    line = {
        "benchmark": "spark_feed",
        "commits": given.commits,
        "rows": rows,
        **figures("batch", given.commits, batch),
        **figures("stream", given.commits, stream),
        "make_commits_per_s": round(given.commits / made_s),
        "cores": given.cores,
        "load_average": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
