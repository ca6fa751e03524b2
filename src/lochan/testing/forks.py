"""Children made by a real fork, for tests of what a forked process may do.

    assert ForkedChild(lambda: store.get(where, key) is None).result() is True

The child runs the work, sends what it returned or raised back, and ends without running anything
else of its parent: not its tests, not its exit handlers.
"""

from __future__ import annotations

import atexit
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import msgspec

_LIVING: set[int] = set()


@atexit.register
def _end_all() -> None:
    """Ends those that a failed test has left; a child never comes here."""
    for pid in list(_LIVING):
        _end(pid)


def _end(pid: int) -> None:
    _LIVING.discard(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class ChildFailed(AssertionError):
    """A child raised an error, or ended before it sent its result."""


class ForkedChild:
    """One child; `result` waits for it. What it returns has to be JSON."""

    def __init__(self, work: Callable[[], object]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # From Python 3.12 on a fork beside threads is warned of, and is what is tested here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            _run(work, writing)
        os.close(writing)
        self._pipe: int | None = reading
        _LIVING.add(self.pid)

    def result(self) -> Any:
        """Returns what the work returned; ChildFailed if it raised or the child was killed."""
        if self._pipe is None:
            raise ChildFailed("the child has ended already")
        try:
            with os.fdopen(self._pipe, "rb") as pipe:
                answer = pipe.read()
        finally:
            self._pipe = None
            # One that has answered is about to end; any other must not outlive its test.
            _end(self.pid)
        if not answer:
            raise ChildFailed("the child ended without a word")
        outcome = msgspec.json.decode(answer)
        if "failed" in outcome:
            raise ChildFailed(outcome["failed"])
        return outcome["done"]

    def kill(self) -> None:
        """Ends the child with SIGKILL."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
            _end(self.pid)


def _run(work: Callable[[], object], writing: int) -> None:
    outcome: dict[str, object] = {"failed": "the work was left by an exit"}
    try:
        outcome = {"done": work()}
        answer = msgspec.json.encode(outcome)
    except BaseException:
        answer = msgspec.json.encode({"failed": traceback.format_exc()})
        raise
    finally:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)


def error_kind(call: Callable[[], object]) -> str:
    """Returns the kind of the error that a call raises, `none` if it returns."""
    from lochan.base.errors import LochanError

    try:
        call()
    except LochanError as error:
        return error.kind
    return "none"
