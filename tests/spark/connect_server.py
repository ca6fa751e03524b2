"""A Spark Connect server as a child process, for tests whose clients come and go."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pyspark

from lochan.spark.java import use_java
from lochan.spark.session import LOCAL_SETTINGS, OWN_SETTINGS, RUNTIME_SETTINGS

READY_S = 180.0
STARTED = "Spark Connect server started"


def free_port() -> int:
    """Returns a port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class ConnectServer:
    """A server on loopback; `stop` ends it."""

    def __init__(
        self,
        master: str = "local[2]",
        settings: dict[str, str] | None = None,
        variables: dict[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        use_java()
        self._log = log
        self._port = free_port()
        chosen = {**RUNTIME_SETTINGS, **OWN_SETTINGS, **LOCAL_SETTINGS, **(settings or {})}
        chosen |= {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            # The line that it logs when it is ready is below the level of our sessions.
            "spark.log.level": "INFO",
        }
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--master", master]
        for key, value in chosen.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        self._process = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                **(variables or {}),
            },
        )
        self.url = f"sc://127.0.0.1:{self._port}"
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._ready = threading.Event()
        self._output: list[str] = []
        self._reading.start()
        if not self._ready.wait(READY_S) or self._process.poll() is not None:
            output = "".join(self._output[-20:])
            self.stop()
            raise AssertionError(f"no Connect server: {output}")

    def _read(self) -> None:
        """Reads all output of the server, so that it never waits for a reader."""
        stream: IO[str] | None = self._process.stderr
        for line in stream or ():
            if self._log is not None:
                with self._log.open("a") as log:
                    log.write(line)
            self._output.append(line)
            del self._output[:-200]
            if STARTED in line:
                self._ready.set()
        self._ready.set()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join(30)
        if self._process.stderr is not None:
            self._process.stderr.close()
