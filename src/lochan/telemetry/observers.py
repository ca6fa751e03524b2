"""What is observed: answered requests, store calls and sleeps; several observers as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lochan.base.errors import Invalid
from lochan.base.ports import Waiting
from lochan.kv.observe import ObservedCall, Observer


class AnsweredRequest(Protocol):
    """The facts of an answered request that are counted or traced."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def path(self) -> bytes:
        """The raw path."""

    @property
    def route(self) -> str:
        """The name of the operation."""

    @property
    def repository(self) -> str:
        """The repository that was meant, empty if none was found."""

    @property
    def status(self) -> int:
        """The status of the answer."""

    @property
    def duration_ns(self) -> int:
        """From the last byte of the request to the first of the answer."""

    @property
    def request_id(self) -> str:
        """The id that the answer contains."""


class SleepObserver(Protocol):
    """Wants to know of sleeps between attempts."""

    def slept(self, duration_ms: float) -> None:
        """Records a sleep that has ended; must not raise."""


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
