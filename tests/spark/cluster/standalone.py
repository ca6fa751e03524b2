"""A standalone cluster of Spark on this machine: a master and workers, each a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.spark.cluster.drivers import children_of, environment, tail

READY_S = 120
_LOOK_S = 0.1
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master (\S+)")
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Standalone:
    """A master and two workers; `stop` ends them by their ids.

    A worker has room for an executor of each of several drivers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        try:
            self._start("master.Master", "master", [])
            self.url = self._said("master", _MASTER)
            more = ["--cores", "4", "--memory", "4g", self.url]
            for name in ("worker-1", "worker-2"):
                place = ["--work-dir", str(folder / name)]
                self._start("worker.Worker", name, [*place, *more])
            for name in ("worker-1", "worker-2"):
                self._said(name, _REGISTERED)
        except BaseException:
            self.stop()
            raise

    @property
    def logs(self) -> str:
        """The ends of the logs of master, workers and executors."""
        found = [*self._folder.glob("*.out"), *self._folder.glob("worker-*/*/*/stderr")]
        return "".join(tail(log) for log in sorted(found))

    def executors(self, application: str) -> list[int]:
        """Returns the executors of a driver that run: children of our workers."""
        return [
            pid
            for worker in self._started[1:]
            for pid, command in children_of(worker.pid).items()
            if _EXECUTOR in command and application in command
        ]

    def kill_one(self, application: str) -> int:
        """Ends an executor of a driver without a word; returns its id."""
        pid = self.executors(application)[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self) -> None:
        """Ends all that was started here, workers first."""
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, kind: str, name: str, more: list[str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *more]
        variables = environment(SPARK_HOME=str(home), SPARK_DAEMON_MEMORY="256m")
        with (self._folder / f"{name}.out").open("wb") as log:
            # The script becomes Java, so that its id is that of Java.
            self._started.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    env=variables,
                )
            )

    def _said(self, name: str, what: re.Pattern[str]) -> str:
        """Returns the first line of a process, as soon as there is one."""
        log, process = self._folder / f"{name}.out", self._started[-1]
        rest = threading.Event()
        for _ in range(int(READY_S / _LOOK_S)):
            found = what.search(log.read_text(errors="replace"))
            if found:
                return found[1]
            if process.poll() is not None:
                break
            rest.wait(_LOOK_S)
        pytest.fail(f"{name} did not start{tail(log)}")
