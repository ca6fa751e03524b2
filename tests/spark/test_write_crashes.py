"""Drivers, tasks, executors and replies that are lost: no row twice, none missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyspark
import pytest

from lochan.base.errors import Unavailable, Unknown
from lochan.client import Client
from lochan.iceberg import LochanCatalog
from tests.profile import counted, in_deep_only
from tests.spark.connect_server import ConnectServer
from tests.spark.write_child import KILLED, Order

ROOT = Path(__file__).parents[2]
CHILD_S = 280


@pytest.fixture(scope="module")
def connect(spark):
    """A server for drivers that live shortly; it needs the same things as the session `spark`."""
    server = ConnectServer()
    yield server.url
    server.stop()


def child(order: Order) -> tuple[int, Any]:
    home = str(Path(pyspark.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.write_child", msgspec.json.encode(order).decode()],
        cwd=ROOT,
        env={**os.environ, "SPARK_HOME": home, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        check=False,
    )
    if done.returncode not in (0, KILLED):
        raise AssertionError(done.stderr[-3_000:])
    lines = done.stdout.splitlines()
    return done.returncode, msgspec.json.decode(lines[-1])["result"] if lines else None


def order_for(lake, master: str, plan: str, **more: Any) -> Order:
    return Order(master=master, server=lake.uri, warehouse=lake.warehouse, plan=plan, **more)


def ids(lake, table: str = "t.n") -> list[int]:
    return sorted(lake.catalog.load_table(table).scan().to_arrow().column("id").to_pylist())


def head(lake) -> str:
    return lake.client.references.get("main").hash


def numbers(lake, first: int, last: int, v: str = "old"):
    return lake.spark.range(first, last, 1, 2).selectExpr("id", "id % 2 as half", f"'{v}' as v")


DONE = ("answered", "committed")


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    ["committed", "staged", "looked", "written", "sending", "answered"][: counted(1, 6)],
)
def test_a_driver_that_is_killed_is_run_again_and_every_row_is_there_once(lake, connect, step):
    lake.write(numbers(lake, 0, 10), "t.n")
    before = head(lake)
    code, _ = child(order_for(lake, connect, "write", first=10, count=10, step=step))
    assert code == KILLED
    assert (head(lake) != before) == (step in DONE)
    written = lake.write(numbers(lake, 10, 20, "append"), "t.n", job="the job")
    assert written.was_done_before == (step in DONE)
    assert ids(lake) == list(range(20))
    assert (written.rows, len(lake.client.history.log("main", 10).items)) == (10, 2)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["merged", "staged", "sending", "committed"][: counted(1, 4)])
def test_a_merge_that_is_killed_is_run_again_and_every_key_is_there_once(lake, connect, step):
    lake.write(numbers(lake, 0, 10), "t.n")
    before = head(lake)
    code, _ = child(order_for(lake, connect, "write", mode="merge", first=5, count=10, step=step))
    assert code == KILLED
    assert (head(lake) != before) == (step in DONE)
    lake.write(numbers(lake, 5, 15, "merge"), "t.n", mode="merge", keys=["id"], job="the job")
    assert ids(lake) == list(range(15))
    values = lake.catalog.load_table("t.n").scan().to_arrow().column("v").to_pylist()
    assert (values.count("old"), values.count("merge")) == (5, 10)


@in_deep_only
def test_everything_is_written_through_connect_too(lake, connect):
    code, counts = child(order_for(lake, connect, "flow"))
    assert (code, counts) == (0, [20, 20])
    assert ids(lake) == ids(lake, "t.lists") == list(range(20))
    assert len(lake.client.history.log("main", 10).items) == 5


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[2,3]", "local-cluster[2,1,1024]"][: counted(1, 2)])
def test_tasks_that_are_tried_again_leave_no_row_twice(lake, master):
    code, _ = child(order_for(lake, master, "flaky", count=100))
    assert code == 0
    for table in ("t.n", "t.parts", "t.lists"):
        assert ids(lake, table) == list(range(100))


@in_deep_only
def test_an_executor_that_is_killed_in_mid_job_leaves_no_row_twice_and_none_out(lake):
    code, _ = child(order_for(lake, "local-cluster[2,1,1024]", "flaky", count=100, step="executor"))
    assert code == 0
    assert ids(lake) == list(range(100))


class Losing(httpx.BaseTransport):
    """Passes commits on and loses replies, or does not pass them on, in a given order."""

    def __init__(self, *fates: str) -> None:
        self._fates = list(fates)
        self._through = httpx.HTTPTransport()
        self.is_down = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        is_commit = request.method == "POST" and "history/commit" in request.url.path
        fate = self._fates.pop(0) if is_commit and self._fates else "pass"
        if self.is_down:
            raise httpx.ConnectError("down", request=request)
        if fate == "never sent":
            raise httpx.ReadError("cut", request=request)
        response = self._through.handle_request(request)
        if fate == "pass":
            return response
        response.read()
        response.close()
        self.is_down = fate == "lost for long"
        raise httpx.ReadError("cut", request=request)

    def close(self) -> None:
        self._through.close()


@pytest.fixture
def losing(lake):
    """Returns a function that makes the lake's catalog lose replies; each is asked for once."""

    clients: list[Client] = []

    def begin(*fates: str, attempts: int = 1) -> Losing:
        transport = Losing(*fates)
        client = Client(lake.uri, transport=transport, attempts_max=attempts, sleep=lambda _: None)
        lake.__dict__["catalog"] = LochanCatalog.on(client, ref="main", warehouse=lake.warehouse)
        clients.append(client)
        return transport

    before = lake.catalog
    yield begin
    lake.__dict__["catalog"] = before
    for client in clients:
        client.close()


def test_a_reply_that_is_lost_at_the_swing_is_found_by_the_job(lake, losing):
    lake.write(numbers(lake, 0, 5), "t.n")
    losing("lost")
    written = lake.write(numbers(lake, 5, 10), "t.n", job="lost")
    assert (written.was_done_before, written.rows) == (False, 5)
    losing("lost", "never sent", "lost", attempts=5)
    lake.write(numbers(lake, 10, 15), "t.n", job="lost again")
    assert ids(lake) == list(range(15))
    assert len(lake.client.history.log("main", 10).items) == 3


def test_a_commit_that_never_arrived_is_made_by_the_next_attempt(lake, losing):
    lake.write(numbers(lake, 0, 5), "t.n")
    losing("never sent", "never sent")
    assert not lake.write(numbers(lake, 5, 10), "t.n", job="late").was_done_before
    assert ids(lake) == list(range(10))


def test_an_outcome_that_nobody_can_tell_is_unknown_and_nothing_is_deleted(lake, losing, tmp_path):
    lake.write(numbers(lake, 0, 5), "t.n")
    transport = losing("lost for long")
    with pytest.raises(Unknown, match="run it again with job='unknown'"):
        lake.write(numbers(lake, 5, 10), "t.n", job="unknown")
    transport.is_down = False
    assert ids(lake) == list(range(10))
    assert lake.write(numbers(lake, 5, 10), "t.n", job="unknown").was_done_before
    transport.is_down = True
    with pytest.raises(Unavailable):
        lake.write(numbers(lake, 10, 15), "t.n", job="down")
