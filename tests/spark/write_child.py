"""A driver of its own: writes what its arguments name, and ends at a given step, as if killed.

python -m tests.spark.write_child '{"master": …, "server": …, "warehouse": …, "plan": …}'
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa

from lochan.client import Client
from lochan.iceberg import LochanCatalog
from lochan.spark import Lake, session
from lochan.spark.write.table_write import Mode

KILLED = 9


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the child shall do."""

    master: str
    server: str
    warehouse: str
    plan: str
    mode: Mode = "append"
    step: str = ""
    job: str = "the job"
    first: int = 0
    count: int = 20
    settings: dict[str, str] = {}


class Ending(httpx.BaseTransport):
    """Ends the process when a commit is about to be sent, or when its answer has come."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._through = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        is_commit = request.method == "POST" and "history/commit" in request.url.path
        if is_commit and self._step == "sending":
            os._exit(KILLED)
        response = self._through.handle_request(request)
        if is_commit and self._step == "answered":
            response.read()
            os._exit(KILLED)
        return response

    def close(self) -> None:
        self._through.close()


def run(order: Order) -> Any:
    spark = session("child", master=order.master, settings=order.settings)
    with (
        Lake(spark, order.server, warehouse=order.warehouse) as lake,
        Client(order.server, transport=Ending(order.step)) as client,
    ):
        lake.__dict__["catalog"] = LochanCatalog.on(client, ref="main", warehouse=order.warehouse)
        return {"write": one_write, "flow": flow, "flaky": flaky}[order.plan](lake, order)


def one_write(lake: Lake, order: Order) -> Any:
    frame = rows(lake, order)
    keys = ("id",) if order.mode == "merge" else ()

    def end(step: str) -> None:
        if step == order.step:
            os._exit(KILLED)

    lake.write(frame, "t.n", mode=order.mode, job=order.job, keys=keys, steps=end)
    return None


def rows(lake: Lake, order: Order, partitions: int = 2) -> Any:
    frame = lake.spark.range(order.first, order.first + order.count, 1, partitions)
    return frame.selectExpr("id", "id % 2 as half", f"'{order.mode}' as v")


def flow(lake: Lake, order: Order) -> Any:
    """Every mode, both ways of writing, transforms that need executors."""
    frame = rows(lake, order)
    lake.write(frame, "t.n", job=order.job, partition_by=["bucket(2, id)", "half"])
    lake.write(frame, "t.n", job=order.job)
    lake.write(frame.where("id < 5"), "t.n", mode="merge", keys=["id"])
    lake.write(frame.where("half = 0"), "t.n", mode="overwrite_partitions")
    lists = frame.selectExpr("*", "array(id) as l", "map(v, id) as m")
    lake.write(lists, "t.lists", partition_by=["half"])
    lake.write(lists.where("id = 3"), "t.lists", mode="merge", keys=["id"])
    return [lake.read(name).count() for name in ("t.n", "t.lists")]


def flaky(lake: Lake, order: Order) -> Any:
    """Tasks that fail after their rows, or with their whole executor, when they are tried first."""
    killing = order.step == "executor"

    def once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0 and task.partitionId() == 1:
            if killing:
                os.kill(executor(), signal.SIGKILL)
            raise RuntimeError("the first attempt fails")

    frame = rows(lake, order, 4)
    frame = frame.mapInArrow(once, frame.schema)
    lake.write(frame, "t.n", job=order.job)
    if not killing:
        lake.write(frame, "t.parts", job=order.job, partition_by=["half"])
        # By pyarrow, and in the same stage as the rows.
        lists = frame.selectExpr("*", "array(id) as l")
        lake.write(lists, "t.lists", job=order.job)
    return None


def executor() -> int:
    """Returns the process that this worker works for: the parent of the one that made it."""
    line = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(line.rpartition(")")[2].split()[1])


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    result = run(order)
    sys.stdout.write(msgspec.json.encode({"result": result}).decode() + "\n")


if __name__ == "__main__":
    main()
