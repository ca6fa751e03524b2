"""Measures files over HTTP on a server of its own, in the rows in which lakeFS was measured.

    python -m benchmarks files-http                                all rows, about ten minutes
    python -m benchmarks files-http --rows upload-one:64 stat-staged:1 --seconds 3
    python -m benchmarks files-http --api lakefs                   the same over the API of lakeFS

The server is a process on RocksDB, with blocks in a directory. Over the API of lakeFS it knows its
callers, as lakeFS does: every request has an access key. Each row is one JSON line; at the end of
them comes a table on standard error, with the recorded figures of lakeFS (`recorded.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.http_files.api import FilesApi, LochanFiles
from benchmarks.http_files.calibration import calibrate
from benchmarks.http_files.lakefs_api import LakefsFiles, set_up
from benchmarks.http_files.preparation import Preparation
from benchmarks.http_files.recorded import LAKEFS
from benchmarks.http_files.rows import ROWS, measure, split
from benchmarks.http_files.table import calibration_row, table
from benchmarks.http_load.drive import run
from benchmarks.http_load.processes import Missing, free_port
from benchmarks.http_load.testbed import STORES, Testbed
from benchmarks.measure import Line, emit

APIS = ("files", "lakefs")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks files-http",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", nargs="+", default=list(LAKEFS), metavar="NAME:CLIENTS")
    parser.add_argument("--api", choices=APIS, default="files", help="default: files (/files/v1)")
    parser.add_argument("--store", choices=STORES, default="rocksdb", help="default: rocksdb")
    parser.add_argument("--address", help="http://HOST:PORT of a running server instead")
    parser.add_argument("--credentials", help="KEY:SECRET for a running server, with --api lakefs")
    parser.add_argument("--pid", type=int, action="append", default=[], help="its process, with it")
    parser.add_argument("--seconds", type=float, default=4, help="length of a window; default: 4")
    parser.add_argument("--warm", type=float, default=1, help="seconds before each window")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 makes it a hundredth")
    chosen = parser.parse_args(arguments)
    if chosen.api == "lakefs" and chosen.address and not chosen.credentials:
        parser.error("--api lakefs on a running server needs --credentials")
    try:
        for row in chosen.rows:
            split(row)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def main(arguments: Sequence[str]) -> None:
    chosen = parse(arguments)
    with ExitStack() as stack:
        address, pids = chosen.address, list(chosen.pid)
        credentials = chosen.credentials or ""
        if address is None:
            testbed = stack.enter_context(Testbed(chosen.store))
            port = free_port() if chosen.api == "lakefs" else 0
            try:
                served = testbed.start("lochan", more=("--files-port", str(port)))
            except Missing as missing:
                emit("files_http", skipped=str(missing))
                sys.exit(1)
            address, pids, folder = served.address, testbed.pids(served), testbed.folder
            if port:
                address = f"http://127.0.0.1:{port}"
                credentials = set_up(address)
        else:
            folder = Path(stack.enter_context(TemporaryDirectory()))
        speed: Line = calibrate(folder)
        emit("files_http_calibration", **speed)
        api = LakefsFiles(address, credentials) if credentials else LochanFiles(address)
        lines = run(lambda: _measure_all(chosen, api, pids))
    print(f"\n{table(lines)}\n{calibration_row(speed)}", file=sys.stderr)


async def _measure_all(chosen: argparse.Namespace, api: FilesApi, pids: list[int]) -> list[Line]:
    run_name = f"f{int(time.time()) % 10_000_000:x}"
    preparation = Preparation(api, run_name, chosen.scale)
    lines: list[Line] = []
    for row in chosen.rows:
        name, clients = split(row)
        # A window that a single commit of 100,000 files does not fit in would show nothing.
        seconds = max(60.0, chosen.seconds) if ROWS[name].once else chosen.seconds
        figures = await measure(preparation, row, seconds=seconds, warm_s=chosen.warm, pids=pids)
        line = {"api": chosen.api, "store": chosen.store, "workload": name, "clients": clients}
        line |= figures
        emit("files_http", **line)
        lines.append({"benchmark": "files_http", **line})
    return lines
