"""The speed of a test: which tests are slow, and what the other tests must not do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Folders whose tests need a JVM or a database, start and kill processes, or run thousands of cases.
SLOW_FOLDERS = (
    "compat",
    "crash",
    "fleet",
    "fuzz",
    "iceberg",
    "kernel/check",
    "property",
    "sim",
    "spark",
    "stateful",
    "stores/cassandra",
    "stores/dynamodb",
    "stores/postgres",
)

_HERE = Path(__file__).parent
_STARTS = frozenset(("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"))
_SIGNALS = frozenset(("os.kill", "os.killpg"))
_refused: dict[str, str] = {}


# Contracts for every store and every place for object data, whose tests fork.
_FORKING = ("lochan.testing.contracts.fork", "lochan.testing.contracts.block_fork")


def forks(function: object) -> bool:
    """Returns whether a test belongs to the shipped contracts of forks."""
    return getattr(function, "__module__", None) in _FORKING


def is_slow_folder(path: Path) -> bool:
    """Returns whether a path is in a folder whose tests are all slow."""
    if not path.is_relative_to(_HERE):
        return False
    below = path.relative_to(_HERE)
    return any(below.is_relative_to(folder) for folder in SLOW_FOLDERS)


@contextmanager
def without_processes(test: str, *, signals: bool) -> Iterator[None]:
    """While this runs, starting a process raises, and signalling one unless `signals` may be sent.

    Allowed are git, which lists files, and signal 0, which only checks that a process exists.
    """
    _refused.update(dict.fromkeys(_STARTS if signals else _STARTS | _SIGNALS, test))
    try:
        yield
    finally:
        _refused.clear()


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    if event not in _refused:
        return
    if event == "subprocess.Popen" and Path(str(given[0])).name == "git":
        return
    if event in _SIGNALS and given[1] == 0:
        return
    test = _refused[event]
    # Refused once only: the clean-up of the test may start and signal processes.
    _refused.clear()
    raise AssertionError(f"{test} is not marked `slow` and must not do this: {event}, {given[:2]}")


sys.addaudithook(_refuse)
