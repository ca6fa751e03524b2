"""Java programs for tests: found or fetched by Maven, started on a free port, stopped at the end.

The jars of a program are kept in a folder of the user's cache, so that they are fetched once.
LOCHAN_TEST_JARS names another folder for all of them.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import MappingProxyType
from typing import Final

import msgspec

from lochan.testing.processes import signal_family

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>lochan</groupId><artifactId>jars</artifactId>
<version>1</version><packaging>pom</packaging><dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""

# Some dozens of jars on a slow network.
_FETCH_S: Final = 200

# A JVM on a busy machine.
_START_S: Final = 90
_STOP_S: Final = 20
_ANSWER_S: Final = 30
_LOOK_EVERY_S: Final = 0.05


class Package(msgspec.Struct, frozen=True):
    """A published Java program, by its coordinates."""

    group: str
    artifact: str
    version: str

    @property
    def missing(self) -> str:
        """Why tests that need it are skipped, and what to do about it."""
        return (
            f"{self.artifact} {self.version} needs Java and its jars: install a Java runtime and "
            "Maven, which fetches them once, or name a folder that holds "
            f"{self.artifact}-{self.version}/*.jar in LOCHAN_TEST_JARS"
        )


def find_jars(package: Package) -> Path | None:
    """Returns the folder of the jars, fetched if they are not there yet; None if that fails."""
    if shutil.which("java") is None:
        return None
    named = os.environ.get("LOCHAN_TEST_JARS")
    root = Path(named) if named else Path("~/.cache/lochan/test-jars").expanduser()
    folder = root / f"{package.artifact}-{package.version}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None or named:
        return None
    root.mkdir(parents=True, exist_ok=True)
    # Several workers may need the same jars at the same time.
    with (root / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder if folder.is_dir() or _fetch(maven, package, folder) else None


def _fetch(maven: str, package: Package, folder: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        pom = Path(temporary) / "pom.xml"
        coordinates = msgspec.structs.asdict(package)
        pom.write_text(_POM.format(**coordinates), "utf-8")
        unfinished = Path(temporary) / "jars"
        command = [maven, "--quiet", "--batch-mode", "--file", str(pom)]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={unfinished}"]
        command += ["-DincludeScope=runtime"]
        try:
            done = subprocess.run(  # noqa: S603 - the program is no input
                command, capture_output=True, timeout=_FETCH_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode or not unfinished.is_dir():
            return False
        unfinished.rename(folder)
        return True


# The shell ends the program when it reads the name of a signal, or when its own input ends: with
# the process of the tests, which may be killed before it has stopped anything.
_GUARD: Final = '"$@" & program=$!; read -r signal; kill -"${signal:-KILL}" $program; wait $program'


class JavaServer:
    """A running program that listens on `port`; `stop` ends it and removes its files.

    PORT in an argument or a file stands for that port, FOLDER for the folder of its files.
    """

    def __init__(
        self,
        jars: Path,
        *arguments: str,
        heap_mb: int = 256,
        java: str | None = None,
        options: Sequence[str] = (),
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="lochan-java-"))
        self.port = free_port()
        for name, text in files.items():
            (self._folder / name).write_text(self._fill(text), "utf-8")
        self._command = [
            "/bin/sh",
            "-c",
            _GUARD,
            "sh",
            java or shutil.which("java") or "java",
            f"-Xmx{heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        self._command += [f"-Djava.library.path={jars}", *map(self._fill, options)]
        self._command += ["-cp", f"{jars}/*", *map(self._fill, arguments)]
        try:
            self._process = self._start()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self._folder

    def stop(self) -> None:
        """Ends the program and removes its files; harmless when it has ended already."""
        self.halt("KILL")
        shutil.rmtree(self._folder, ignore_errors=True)

    def halt(self, signal: str = "TERM") -> None:
        """Ends the program and keeps its files; with "KILL" it finishes nothing."""
        _end(self._process, signal)

    def freeze(self) -> None:
        """Stops the program where it is; its connections stay open."""
        signal_family(self._process.pid, SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen program go on."""
        signal_family(self._process.pid, SIGCONT)

    def restart(self) -> None:
        """Starts the program again, on its files and its port; ends it first if it runs."""
        self.halt()
        self._process = self._start()

    def _fill(self, text: str) -> str:
        return text.replace("PORT", str(self.port)).replace("FOLDER", str(self._folder))

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - the program is no input
                self._command,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait(process)
        except BaseException:
            _end(process, "KILL")
            raise
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if _has_ended(process) or time.monotonic() > deadline:
                    log = (self._folder / "log").read_text("utf-8", "replace")
                    raise RuntimeError(f"the program did not start: {log[-2_000:]}") from None


def _end(process: subprocess.Popen[bytes], signal: str) -> None:
    if process.stdin is not None and not process.stdin.closed:
        try:
            process.stdin.write(signal.encode() + b"\n")
            process.stdin.close()
        except BrokenPipeError:
            # The shell has ended already.
            pass
    if process.poll() is None:
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Waits for a moment whether a program ends."""
    try:
        process.wait(_LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def find_java(version: int) -> str | None:
    """Returns a program `java` of exactly this version: JAVA_HOME, PATH, the usual places."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin" / "java"] if home else []
    places += [Path(found)] if (found := shutil.which("java")) else []
    places += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    for place in dict.fromkeys(place.resolve() for place in places if place.is_file()):
        try:
            answer = subprocess.run(  # noqa: S603 - the program is no input
                [place, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if re.search(rf'version "{version}\b', answer.stderr):
            return str(place)
    return None


def has_compiler() -> bool:
    """Returns whether Java can run a program from its source, which a mere runtime cannot."""
    java = shutil.which("java")
    if java is None:
        return False
    try:
        answer = subprocess.run(  # noqa: S603 - the program is no input
            [java, "--list-modules"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "jdk.compiler@" in answer.stdout


def free_port() -> int:
    """Returns a port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
