"""Delivers events to one listener, at most once, from a bounded queue in memory.

Writers `offer` changes and never wait: a full queue drops one and counts it. One worker calls
`turn` again and again. A turn takes the oldest change, waits until it is durable, makes its events
and hands those that the filter accepts to the listener, one after the other. The worker is a thread
that is started elsewhere (`assembly/events.py`), or an actor of a simulation.

* An event whose call raised is tried again after a sleep that doubles, with jitter. After the last
  attempt it is a dead letter: kept in memory for an operator, and counted. A listener may ask for
  a longer sleep, or for no other attempt (`events/reactions.py`).
* After several dead letters in a row the breaker opens: nothing is tried for a while, and then one
  event. Changes wait in the queue meanwhile.
* A call that takes too long cannot be interrupted. While it runs the subscription is tripped and
  takes no changes, so that the memory and the number of threads stay bounded.

An exception of a listener never reaches a writer or another subscription.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from lochan.base.errors import LochanError
from lochan.base.limits.events import EVENT_DEAD_LETTERS_MAX
from lochan.base.ports import Lock
from lochan.events.changes import Change
from lochan.events.filters import AnyFilter
from lochan.events.listener_calls import DeadLetter, ListenerCalls
from lochan.events.observers import UNOBSERVED, DeliveryObserver
from lochan.events.reactions import EventRefused, pause_after
from lochan.events.shared import SharedEvents
from lochan.events.subscribers import (
    DeliveryOptions,
    DropPolicy,
    EventListener,
    SubscriptionState,
    SubscriptionStatus,
)
from lochan.kernel.repository import Ports
from lochan.model.events import Event

_NS_OF_MS: Final = 1_000_000


class _Queued(msgspec.Struct, frozen=True):
    change: Change
    types: frozenset[str]
    since_ns: int
    size: int


class Delivery:
    """One subscription: its queue, its numbers, its breaker."""

    def __init__(
        self,
        listener: EventListener,
        accepted: AnyFilter,
        options: DeliveryOptions,
        ports: Ports,
        builder: SharedEvents,
        lock: Lock,
        wake: Callable[[], None] = lambda: None,
        *,
        name: str = "",
        observer: DeliveryObserver = UNOBSERVED,
    ) -> None:
        self.name = name
        self._observer = observer
        self._calls = ListenerCalls(
            listener, options.call_ms_max, ports.clock, lock, name, observer
        )
        self._filter = accepted
        self._options = options
        self._ports = ports
        self._builder = builder
        self._lock = lock
        self.wake = wake
        """Called after a change was queued; the driver of the worker sets it."""
        self._queue: deque[_Queued] = deque()
        self._queued_size = 0
        self._open_until_ns: int | None = None
        self._failures = 0
        self._is_cancelled = False
        self._is_stopping = False
        self._is_stuck = False
        self._delivered = self._retried = self._dead = self._dropped = 0
        self._trips = self._skipped = self._rejected = 0
        self.dead_letters: deque[DeadLetter] = deque(maxlen=EVENT_DEAD_LETTERS_MAX)

    def offer(self, change: Change) -> None:
        """Queues a change if one of its events may be accepted; never waits."""
        types = self._filter.wanted_types(change)
        if not types:
            # The hub passes changes on one after the other, so that no other thread counts here.
            self._skipped += 1
            return
        with self._lock:
            if self._is_cancelled:
                return
            if self._calls.take_too_long():
                self._dropped += 1
                self._trips += not self._is_stuck
                self._is_stuck = True
                return
            size = change.size
            if not self._fits(size):
                return
            self._queue.append(_Queued(change, types, self._now_ns(), size))
            self._queued_size += size
        self.wake()

    def _fits(self, size: int) -> bool:
        """Returns whether a change of that size may be queued; drops older ones if it has to."""
        queue_max, queue = self._options.queue_max, self._queue
        # Whatever its size is, one change may wait.
        while queue and self._queued_size + size > queue_max:
            self._dropped += 1
            if self._options.drop is DropPolicy.NEWEST:
                return False
            self._queued_size -= queue.popleft().size
        return True

    def turn(self) -> bool:
        """Delivers the events of the oldest change; returns whether there was one to deliver."""
        queued = self._take()
        if queued is None:
            return False
        passed = 0
        for attempt in range(1, self._options.attempts_max + 1):
            try:
                for event in self._events(queued, passed):
                    if self._is_cancelled:
                        break
                    passed += 1
                    if self._filter.accepts(event):
                        self._observer.deliver(self.name, event, partial(self._deliver, event))
                    else:
                        self._rejected += 1
                return True
            except LochanError as error:
                # The store cannot be read at the moment; the events are made again, in their order.
                with self._lock:
                    self._calls.last_error = error.kind
            if attempt < self._options.attempts_max and not self._is_stopping:
                self._sleep(self._options.sleep_first_ms * 2 ** (attempt - 1))
        with self._lock:
            self._dropped += 1
        return True

    def _events(self, queued: _Queued, passed: int) -> Iterator[Event]:
        """Yields the events of a change, without the first ones that were handled already."""
        change = queued.change
        self._builder.make_durable(change)
        wants_key = self._filter.accepts_key if self._filter.narrows else None
        made = self._builder.build(change, queued.types, wants_key)
        return islice(made, passed, None)

    @property
    def queued(self) -> int:
        """How many changes wait."""
        return len(self._queue)

    def pause_ms(self) -> float | None:
        """Returns for how long nothing will be tried; None if the next change may be."""
        until_ns = self._open_until_ns
        if until_ns is None:
            return None
        return max(0.0, (until_ns - self._now_ns()) / _NS_OF_MS)

    def stop(self) -> None:
        """Lets the worker end after what is queued: no retries, no breaker any more."""
        self._is_stopping = True
        self.wake()

    def cancel(self) -> None:
        """Ends the subscription; what is queued is dropped and not counted."""
        with self._lock:
            self._is_cancelled = True
            self._queue.clear()
        self.wake()

    @property
    def is_over(self) -> bool:
        """Whether the worker has nothing more to do, now and later."""
        return self._is_cancelled or (self._is_stopping and not self._queue)

    def close(self) -> None:
        """Ends a subscription that was stopped; what is still queued is counted as dropped."""
        with self._lock:
            self._dropped += len(self._queue)
            self._queue.clear()
            self._is_cancelled = True

    def finish(self) -> None:
        """Lets the listener release what it has; called once, by the worker, at its end."""
        self._calls.finish()

    def status(self) -> SubscriptionStatus:
        """Returns the state and the numbers."""
        with self._lock:
            if self._is_cancelled:
                state = SubscriptionState.CANCELLED
            elif self._open_until_ns is not None or self._calls.take_too_long():
                state = SubscriptionState.TRIPPED
            elif self._calls.is_failing:
                state = SubscriptionState.FAILING
            else:
                state = SubscriptionState.RUNNING
            since_ns = self._queue[0].since_ns if self._queue else self._now_ns()
            return SubscriptionStatus(
                state=state,
                queued=len(self._queue),
                lag_ms=(self._now_ns() - since_ns) // _NS_OF_MS,
                delivered=self._delivered,
                retried=self._retried,
                dead=self._dead,
                dropped=self._dropped,
                trips=self._trips,
                skipped=self._skipped,
                rejected=self._rejected,
                last_error=self._calls.last_error,
            )

    def _take(self) -> _Queued | None:
        with self._lock:
            until_ns = self._open_until_ns
            if until_ns is not None and self._now_ns() < until_ns and not self._is_stopping:
                return None
            self._open_until_ns = None
            if not self._queue or self._is_cancelled:
                return None
            queued = self._queue.popleft()
            self._queued_size -= queued.size
            return queued

    def _deliver(self, event: Event) -> bool:
        """Hands one event over, in several attempts; False if it became a dead letter."""
        options = self._options
        sleep_ms = options.sleep_first_ms
        attempts = 1
        while (failure := self._attempt(event, attempts)) is not None:
            # After a dead letter, one attempt shows whether the receiver is back.
            is_last = attempts >= options.attempts_max or self._is_stopping or self._failures > 0
            if is_last or isinstance(failure, EventRefused):
                self._give_up(event, pause_after(failure))
                return False
            attempts += 1
            with self._lock:
                self._retried += 1
            self._sleep(sleep_ms, pause_after(failure))
            sleep_ms *= 2
        with self._lock:
            self._delivered += 1
            self._failures = 0
        return True

    def _sleep(self, sleep_ms: float, asked_ms: float = 0.0) -> None:
        """Sleeps for half of the time or more; for as long in addition as the listener asked."""
        longest_ms = min(sleep_ms, self._options.sleep_max_ms)
        jitter_ms = self._ports.random.between(longest_ms / 2, longest_ms)
        self._ports.waiting.sleep_ms(asked_ms + jitter_ms)

    def _attempt(self, event: Event, number: int) -> Exception | None:
        """Calls the listener; returns what it raised."""
        failure = self._calls.attempt(event, number)
        self._is_stuck = False
        return failure

    def _give_up(self, event: Event, asked_ms: float) -> None:
        with self._lock:
            self._dead += 1
            self._failures += 1
            self.dead_letters.append(DeadLetter(event, self._calls.last_error))
            if self._failures >= self._options.failures_max:
                self._trips += 1
                pause_ms = max(self._options.breaker_ms, asked_ms)
                self._open_until_ns = self._now_ns() + int(pause_ms * _NS_OF_MS)

    def _now_ns(self) -> int:
        return self._ports.clock.monotonic_ns()
