"""A program that opens a repository, commits from threads and forks workers until it is killed.

`python -m tests.crash.preforking URL RUN`. Lines of standard output: `ack NAME` after a commit
returned, `child NUMBER PID OUTCOMES` when a worker has tried everything, `ended NUMBER ENDING CODE`
when it is gone. A worker ends in one of many ways; some stay until somebody kills them.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from itertools import count
from threading import Semaphore, Thread

from lochan import open_repository
from lochan.embedded import Embedded
from lochan.model.commits import Put
from lochan.model.contents import Namespace
from lochan.testing.forks import error_kind

COMMITTERS = 2

# How many commits are under way around each fork: all of them are read after each kill.
COMMITS = 15
TURNS = Semaphore(0)

ENDINGS = {
    "exit": 0,
    "return": 0,
    "error": 1,
    "os_exit": 0,
    "kill": -signal.SIGKILL,
    "exec": 0,
    "linger": None,
}
"""How a worker ends, and the code with which it does; None if it stays."""


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def commit(repository: Embedded, name: str) -> None:
    repository.commits.commit("main", name, [Put(key=(name,), content=Namespace(elements=(name,)))])
    report("ack", name)


def commit_on(repository: Embedded, name: str) -> None:
    for number in count():
        TURNS.acquire()
        commit(repository, f"{name}-{number}")


def try_everything(repository: Embedded, name: str) -> dict[str, str]:
    """What a worker does with a repository that it has inherited."""
    attempts: dict[str, Callable[[], object]] = {
        "get": lambda: repository.references.get("main"),
        "entries": lambda: list(repository.contents.iterate("main")),
        "log": lambda: list(repository.history.iterate("main")),
        "commit": lambda: commit(repository, name),
        "create": lambda: repository.references.create(name),
        "merge": lambda: repository.merges.merge("main", name),
        "delete": lambda: repository.references.delete(name),
        "check": repository.check,
        "close": repository.close,
    }
    return {what: error_kind(attempt) for what, attempt in attempts.items()}


def end(ending: str) -> None:
    if ending == "exit":
        sys.exit(0)
    if ending == "error":
        raise RuntimeError("a worker that fails")
    if ending == "os_exit":
        os._exit(0)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "exec":
        os.execv(sys.executable, [sys.executable, "-c", ""])
    while ending == "linger":
        signal.pause()


def main(url: str, run: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    repository = open_repository(url)
    for number in range(COMMITTERS):
        name = f"{run}-parent{number}"
        Thread(target=commit_on, args=(repository, name), daemon=True).start()
    for number, ending in enumerate(list(ENDINGS) * 1_000):
        TURNS.release(COMMITS)
        pid = os.fork()
        if not pid:
            outcomes = try_everything(repository, f"{run}-child{number}")
            del repository
            gc.collect()
            report("child", number, os.getpid(), json.dumps(outcomes))
            return end(ending)
        if ENDINGS[ending] is not None:
            report("ended", number, ending, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
