"""Servers as processes of their own: ours and the real Nessie, on loopback, ended by their id.

A server's output goes to a file, so that it never waits for a reader. `Missing` names what
this machine lacks; callers skip with it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from signal import SIGKILL, SIGTERM

NESSIE = "0.108.8"
JAVA_MIN = 21

_RUNNER = f"nessie-quarkus-{NESSIE}-runner.jar"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_ARTIFACT = f"org.projectnessie.nessie:nessie-quarkus:{NESSIE}:jar:runner"

_ROOT = Path(__file__).parents[2]
_READY_S = 90
_STOP_S = 20
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


class Missing(Exception):
    """A program is not installed on this machine; the message names it and how to get it."""


class Served:
    """A server that answers; `stop` ends it politely, `kill` does not."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.name = name
        self.process = process
        self.log = log
        self.port = port
        self.ready_s = 0.0

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, began: float) -> None:
        """Returns when the server answers a request for its configuration."""
        while not self._answers():
            self.check()
            if time.monotonic() - began > _READY_S:
                self.kill()
                raise RuntimeError(f"{self.name} is not ready after {_READY_S} s: {tail(self.log)}")
            time.sleep(0.01)
        self.ready_s = time.monotonic() - began

    def check(self) -> None:
        """Raises if the server is no longer there."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended by itself: {tail(self.log)}")

    def _answers(self) -> bool:
        if not self.port:
            found = _ADDRESS.search(self.log.read_text("utf-8", errors="replace"))
            if found is None:
                return False
            self.port = int(found[1])
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/api/v2/config")
            # A server that knows its callers answers 401.
            return connection.getresponse().status in (200, 401)
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Ends the server; harmless when it has ended already."""
        if self.process.poll() is None:
            self.process.send_signal(SIGTERM)
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Ends the server in the middle of whatever it does."""
        if self.process.poll() is None:
            self.process.send_signal(SIGKILL)
        self.process.wait()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(name: str, command: list[str], folder: Path, port: int = 0) -> Served:
    """Starts a server and returns it when it answers; with port 0 it reports its own port."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Lochan must print its address at once although its output is not a terminal.
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    served = Served(name, process, log, port)
    try:
        served.wait_until_ready(began)
    except BaseException:
        served.kill()
        raise
    return served


def lochan_command(store: str, *more: str) -> list[str]:
    """Returns how our server is started on a store, on a port of its own choice."""
    return [sys.executable, "-m", "lochan", "serve", "--store", store, "--port", "0", *more]


def start_lochan(store: str, folder: Path, *more: str) -> Served:
    return start("lochan", lochan_command(store, *more), folder)


def start_nessie(store: list[str], folder: Path, heap: str = "4g") -> Served:
    """Starts the real Nessie; `store` is the result of `nessie_store`."""
    java, runner = find_java(), find_runner()
    port, management = free_port(), free_port()
    options = {
        "quarkus.http.port": port,
        "quarkus.management.port": management,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.http.access-log.enabled": "false",
        "quarkus.otel.sdk.disabled": "true",
        # Otherwise it writes one line for each request; in production that is off under load.
        "quarkus.log.level": "WARN",
    }
    command = [java, "-Xms1g", f"-Xmx{heap}"]
    command += [f"-D{key}={value}" for key, value in options.items()]
    return start("nessie", [*command, *store, "-jar", str(runner)], folder, port)


def nessie_store(kind: str, where: str) -> list[str]:
    """Returns the options of one of Nessie's stores; `where` is a directory or HOST:PORT/NAME."""
    version_store = "-Dnessie.version.store"
    if kind == "memory":
        return [f"{version_store}.type=IN_MEMORY"]
    if kind == "rocksdb":
        place = f"{version_store}.persist.rocks.database-path={where}"
        return [f"{version_store}.type=ROCKSDB", place]
    source = "-Dquarkus.datasource.postgresql"
    return [
        f"{version_store}.type=JDBC2",
        f"{version_store}.persist.jdbc.datasource=postgresql",
        f"{source}.jdbc.url=jdbc:postgresql://{where}",
        f"{source}.username=lochan",
        f"{source}.password=unused",
    ]


def find_java() -> str:
    """Returns a Java that is new enough for the peer, the newest that is installed."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += Path("/usr/lib/jvm").glob("*")
    found = [str(home / "bin/java") for home in homes if (home / "bin/java").is_file()]
    found += [path for path in [shutil.which("java")] if path]
    newest = max(((java_version(path), path) for path in found), default=(0, ""))
    if newest[0] < JAVA_MIN:
        raise Missing(
            f"the real Nessie needs Java {JAVA_MIN} or newer, found {newest[0] or 'none'}"
        )
    return newest[1]


def java_version(java: str) -> int:
    """Returns the major version of a Java, 0 if it prints none."""
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', output)
    return int(found[1]) if found else 0


def cache_folder() -> Path:
    """Returns where large things of others are kept between runs, outside the project."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lochan"


def find_runner() -> Path:
    """Returns the jar of the real Nessie, fetched by Maven the first time (280 MB)."""
    jar = cache_folder() / _RUNNER
    if jar.is_file():
        return jar
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("Maven (mvn) is not installed, and it fetches the real Nessie")
    with tempfile.TemporaryDirectory() as empty:
        command = [maven, "-q", "-B", _COPY, f"-Dartifact={_ARTIFACT}"]
        command.append(f"-DoutputDirectory={jar.parent}")
        done = subprocess.run(command, cwd=empty, capture_output=True, text=True, check=False)
    if done.returncode or not jar.is_file():
        raise Missing(f"Maven could not fetch {_ARTIFACT}: {done.stdout[-300:].strip()}")
    return jar


def free_port() -> int:
    """Returns a port that was free a moment ago; for servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tail(log: Path, characters: int = 2_000) -> str:
    """Returns the end of a server's output."""
    return log.read_text("utf-8", errors="replace")[-characters:]
