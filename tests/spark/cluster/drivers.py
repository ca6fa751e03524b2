"""Drivers in processes of their own, each with its session: started, asked, killed.

One process cannot hold two sessions of different kinds, and a driver that is to be killed must not
be the process of the tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
# Less than a test may take, so that the log of a process that hangs is seen.
PATIENCE_S = 240
TAIL_CHARACTERS = 5_000
_LOOK_S = 0.1


def environment(**more: str) -> dict[str, str]:
    """Returns the environment of a process of Spark; nothing of this process's session is in it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **own, "PYSPARK_PYTHON": sys.executable, **more}


def tail(log: Path) -> str:
    """Returns the end of a log."""
    return f"\n--- the end of {log.name} ---\n{log.read_text(errors='replace')[-TAIL_CHARACTERS:]}"


def children_of(pid: int) -> dict[int, str]:
    """Returns the processes that a process has started and that run, with their command lines."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("/proc is missing: the processes of an executor are found there")
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[1]) == pid and state[0] != "Z":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(folder.name)] = command.decode(errors="replace")
        except OSError:
            continue
    return found


class Driver:
    """A driver: `call` runs a function there and returns its value."""

    def __init__(
        self,
        folder: Path,
        master: str,
        address: str,
        warehouse: str,
        *,
        settings: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log = folder / f"driver-{len(list(folder.glob('driver-*.log')))}.log"
        reading, writing = os.pipe()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.cluster.driver", str(writing)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                pass_fds=(writing,),
                cwd=ROOT,
                env=environment(**(variables or {})),
            )
        os.close(writing)
        self._replies = os.fdopen(reading, "r", encoding="utf-8")
        plan = {"master": master, "address": address, "warehouse": warehouse}
        self._tell({**plan, "settings": dict(settings or {}), "files": dict(files or {})})
        try:
            self.kind = self.end()
        except BaseException:
            self.stop()
            raise

    def call(self, function: str, **arguments: Any) -> Any:
        """Runs a function there, with its lake and these arguments; fails as it fails."""
        self.begin(function, **arguments)
        return self.end()

    def begin(self, function: str, **arguments: Any) -> None:
        """Begins a call whose end is waited for by `end`."""
        self._tell({"function": f"tests.spark.cluster.{function}", "arguments": arguments})

    def end(self) -> Any:
        """Returns what the call returned."""
        late = threading.Timer(PATIENCE_S, self.process.kill)
        late.start()
        try:
            line = self._replies.readline()
        finally:
            late.cancel()
        if not line:
            pytest.fail(f"the driver ended, or was too slow{tail(self.log)}")
        reply = json.loads(line)
        if "error" in reply:
            pytest.fail(f"{reply['error']}{tail(self.log)}")
        return reply["value"]

    def waits(self, gate: Path, tasks: int) -> None:
        """Returns when so many tasks wait at a gate."""
        rest = threading.Event()
        for _ in range(int(PATIENCE_S / _LOOK_S)):
            if len(list(gate.glob("waits-*"))) >= tasks:
                return
            if self.process.poll() is not None:
                break
            rest.wait(_LOOK_S)
        pytest.fail(f"no {tasks} tasks came to the gate{tail(self.log)}")

    def kill(self) -> None:
        """Ends it, Python and Java, as a machine that loses its power does."""
        java = children_of(self.process.pid)
        self.process.kill()
        for pid in java:
            os.kill(pid, signal.SIGKILL)
        self._closed()

    def stop(self) -> None:
        """Lets it end by itself, if it does."""
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._closed()

    def _closed(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._replies.close()

    def _tell(self, what: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pytest.fail(f"the driver has ended{tail(self.log)}")
