"""Several observers of store calls and sleeps, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lochan.base.errors import Invalid
from lochan.base.ports import Waiting
from lochan.kv.observe import ObservedCall, Observer


class SleepObserver(Protocol):
    """Wants to know of sleeps between attempts."""

    def slept(self, duration_ms: float) -> None:
        """Records a sleep that has ended; must not raise."""
        ...


class Observers:
    """Passes each store call to several observers."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def observe(self, call: ObservedCall) -> None:
        """Passes a store call on."""
        for observer in self._observers:
            observer.observe(call)


class ObservedWaiting:
    """A Waiting that reports every sleep."""

    def __init__(self, waiting: Waiting, observers: Sequence[SleepObserver]) -> None:
        self._waiting = waiting
        self._observers = tuple(observers)

    def sleep_ms(self, duration_ms: float) -> None:
        """Sleeps, then reports it."""
        self._waiting.sleep_ms(duration_ms)
        for observer in self._observers:
            observer.slept(duration_ms)


def missing_extra(setting: str, error: ImportError) -> Invalid:
    """Returns the error that names the package which a setting needs."""
    return Invalid(
        f"the setting {setting} needs a package that is not installed ({error.name}); "
        "install lochan[telemetry]"
    )
