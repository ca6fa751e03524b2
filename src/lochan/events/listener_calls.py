"""Calls one listener: how long its calls take, whether they fail, and what was raised last."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from lochan.base.ports import Clock, Lock
from lochan.events.observers import DeliveryObserver
from lochan.events.reactions import error_text
from lochan.events.subscribers import EventListener, hand_over
from lochan.model.events import Event

_NS_OF_MS: Final = 1_000_000


class DeadLetter(msgspec.Struct, frozen=True):
    """An event that could not be delivered, and what an operator may see of the last exception."""

    event: Event
    error: str


class ListenerCalls:
    """The calls of one listener, which one worker makes; any thread may ask for their state."""

    def __init__(
        self,
        listener: EventListener,
        call_ms_max: int,
        clock: Clock,
        lock: Lock,
        name: str,
        observer: DeliveryObserver,
    ) -> None:
        self._listener = listener
        self._limit_ns = call_ms_max * _NS_OF_MS
        self._clock = clock
        self._lock = lock
        self._name = name
        self._observer = observer
        self._since_ns: int | None = None
        self.is_failing = False
        self.last_error = ""

    def attempt(self, event: Event, number: int) -> Exception | None:
        """Calls the listener; returns what it raised."""
        begin_ns = self._since_ns = self._clock.monotonic_ns()
        try:
            call = partial(hand_over, self._listener, event)
            self._observer.attempt(self._name, event, number, call)
        except Exception as error:
            with self._lock:
                self.last_error = error_text(error)
                self.is_failing = True
            return error
        finally:
            self._since_ns = None
        self.is_failing = self._clock.monotonic_ns() - begin_ns > self._limit_ns
        return None

    def take_too_long(self) -> bool:
        """Returns whether the call that is under way takes longer than the limit."""
        since_ns = self._since_ns
        return since_ns is not None and self._clock.monotonic_ns() - since_ns > self._limit_ns

    def finish(self) -> None:
        """Lets the listener release what it has."""
        try:
            self._listener.close()
        except Exception as error:
            self.last_error = type(error).__name__
