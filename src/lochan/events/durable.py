"""Delivers events to one listener, at least once: from the history that the store keeps.

Nothing is queued. A change of this process only notes the name of its reference and wakes the
worker; changes of other servers are found by searches at intervals. The worker that has the lease
(`events/lease.py`) reads the position of a name, replays what comes after it, hands the events over
one after the other, and moves the position behind them (`events/cursor.py`). So what a crash leaves
is delivered again by the next owner, and nothing that a position is behind was not delivered.

* An event whose call raised waits, and all others with it: it is tried again after sleeps that
  double, then after the time of the breaker, until the receiver takes it. Only an event that the
  receiver refuses as such (`EventRefused`) is a dead letter.
* Whatever else fails, the store included, ends the work; it begins again from what is stored.
* A cursor that is older than the limit is given up for the present. So is the position of a name
  whose history cannot be read. In both cases the listener gets a GAP, which no filter holds back.

The worker is a generator that yields for how many milliseconds it pauses; `turn` runs it up to the
next pause. It never sleeps itself, so the lease is renewed during long pauses too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Final, Protocol

from lochan.base.errors import Corrupt, LochanError, NewerFormat, NotFound
from lochan.base.limits.events import (
    EVENT_COMPLETE_PART,
    EVENT_CURSOR_CHANGES,
    EVENT_CURSOR_MS,
    EVENT_CURSORS_KEPT,
    EVENT_DEAD_LETTERS_MAX,
    EVENT_NOTED_MAX,
    EVENT_POLL_PAUSE_TIMES,
)
from lochan.base.names import RefName
from lochan.base.ports import Lock
from lochan.codec.rows import ReferenceRow
from lochan.events.builder import EventBuilder
from lochan.events.changes import Change
from lochan.events.cursor import NamePosition, RepositoryCursor
from lochan.events.filters import AnyFilter
from lochan.events.gaps import gap_of_age, gap_of_history
from lochan.events.lease import Lease, LeaseLost
from lochan.events.listener_calls import DeadLetter, ListenerCalls
from lochan.events.observers import UNOBSERVED, DeliveryObserver
from lochan.events.reactions import EventRefused, ReceiverRefused, pause_after
from lochan.events.replay import after_incarnation, is_behind, position_of, replay
from lochan.events.subscribers import (
    DeliveryOptions,
    EventListener,
    SubscriptionState,
    SubscriptionStatus,
)
from lochan.kernel.context import RepositoryContext
from lochan.kernel.repository import Ports
from lochan.kv.store import Store
from lochan.model.events import Event
from lochan.persist.retry import RetryPolicy

_NS_OF_MS: Final = 1_000_000
_US_OF_S: Final = 1_000_000

Pauses = Generator[float, None, None]
"""A part of the work: yields for how many milliseconds it pauses, 0 if it only lets others run."""


class RepositorySource(Protocol):
    """The repositories of a store, as the worker of a durable cursor finds them."""

    @property
    def store(self) -> Store:
        """The store of all of them."""
        ...

    def names(self) -> Sequence[str]:
        """Returns the names of all repositories."""
        ...

    def open(self, name: str) -> RepositoryContext:
        """Returns a repository; NotFound if it is gone."""
        ...


class _Cancelled(Exception):
    """The subscription has ended while an event waited."""


class DurableDelivery:
    """One subscription with a durable cursor."""

    def __init__(
        self,
        listener: EventListener,
        accepted: AnyFilter,
        options: DeliveryOptions,
        ports: Ports,
        builder: EventBuilder,
        lock: Lock,
        source: RepositorySource,
        *,
        name: str = "",
        observer: DeliveryObserver = UNOBSERVED,
    ) -> None:
        self.name = name
        self.wake: Callable[[], None] = lambda: None
        """Called after a name was noted; the driver of the worker sets it."""
        self._observer = observer
        self._calls = ListenerCalls(
            listener, options.call_ms_max, ports.clock, lock, name, observer
        )
        self._filter = accepted
        self._options = options
        self._ports = ports
        self._builder = builder
        self._lock = lock
        self._source = source
        self._lease = Lease(source.store, options.cursor, ports, options.call_ms_max, RetryPolicy())
        self._cursors: dict[bytes, RepositoryCursor] = {}
        self._noted: dict[tuple[bytes, str], RepositoryContext] = {}
        self._steps = self._run()
        self._resume_ns = 0
        self._search_ns = 0
        self._followed_ns = 0
        self._failures = 0
        self._is_idle = False
        self._is_open = False
        self._is_cancelled = False
        self._is_stopping = False
        self._is_settled = False
        self._waiting: Event | None = None
        self._delivered = self._retried = self._dead = 0
        self._trips = self._skipped = self._rejected = 0
        self.dead_letters: deque[DeadLetter] = deque(maxlen=EVENT_DEAD_LETTERS_MAX)

    def begin(self) -> None:
        """Adds cursors at the present if the store has none of this subscriber; else does nothing.

        A repository that is created later begins at its creation.
        """
        if self._lease.has_begun():
            return
        for name in self._source.names():
            cursor = RepositoryCursor(self._source.open(name), self._options.cursor)
            if self._filter.accepts_repository(name):
                cursor.begin_at_present()
            else:
                cursor.begin_excluded()
        self._lease.mark_begun()

    def offer(self, change: Change) -> None:
        """Notes where a change of this process is; never waits.

        Without the lease nothing is noted: the worker that takes it searches first.
        """
        if not self._lease.is_held:
            return
        with self._lock:
            if len(self._noted) < EVENT_NOTED_MAX:
                self._noted[change.place] = change.context
            else:
                self._search_ns = 0
        self.wake()

    def turn(self) -> bool:
        """Works up to the next pause; returns whether there may be more to do at once."""
        is_more = self._work()
        if self._is_stopping and not is_more:
            self._is_settled = True
        return is_more

    def _work(self) -> bool:
        if self._is_paused():
            self._keep_lease()
            return False
        try:
            pause_ms = next(self._steps)
        except (LeaseLost, _Cancelled):
            self._begin_again()
            return False
        except LochanError as error:
            self._fail(error)
            return False
        self._failures = 0
        self._resume_ns = self._now_ns() + int(pause_ms * _NS_OF_MS)
        return pause_ms == 0

    def pause_ms(self) -> float:
        """Returns for how long nothing will be done, unless a change is noted."""
        if self.is_over:
            return 0.0
        left_ms = (self._resume_ns - self._now_ns()) / _NS_OF_MS
        return max(0.0, min(left_ms, self._lease.pause_ms()))

    def stop(self) -> None:
        """Lets the worker end when it would have to wait; what is left is delivered later."""
        self._is_stopping = True
        self.wake()

    def cancel(self) -> None:
        """Ends the subscription in this process; its cursor stays."""
        self._is_cancelled = True
        self.wake()

    @property
    def is_over(self) -> bool:
        """Whether the worker has nothing more to do, now and later."""
        return self._is_cancelled or self._is_settled

    def close(self) -> None:
        """Ends a subscription that was stopped."""
        self._is_cancelled = True

    def finish(self) -> None:
        """Gives the lease back and lets the listener end; called once, by the worker."""
        self._steps.close()
        self._lease.release()
        self._calls.finish()

    def status(self) -> SubscriptionStatus:
        """Returns the state and the numbers; the lag is the age of the event that waits."""
        waiting = self._waiting
        lag_us = 0 if waiting is None else self._ports.clock.now_us() - waiting.time_us
        return SubscriptionStatus(
            state=self.state,
            queued=len(self._noted),
            lag_ms=max(0, lag_us // 1_000),
            delivered=self._delivered,
            retried=self._retried,
            dead=self._dead,
            dropped=0,
            trips=self._trips,
            skipped=self._skipped,
            rejected=self._rejected,
            last_error=self._calls.last_error,
        )

    @property
    def state(self) -> SubscriptionState:
        """What it does at the moment."""
        if self._is_cancelled:
            return SubscriptionState.CANCELLED
        if self._calls.take_too_long():
            return SubscriptionState.TRIPPED
        if not self._lease.is_held:
            return SubscriptionState.STANDBY
        if self._is_open:
            return SubscriptionState.TRIPPED
        is_failing = self._calls.is_failing
        return SubscriptionState.FAILING if is_failing else SubscriptionState.RUNNING

    def _is_paused(self) -> bool:
        if self._is_idle and self._noted:
            return False
        return self._now_ns() < self._resume_ns

    def _keep_lease(self) -> None:
        try:
            if self._lease.is_held and not self._lease.hold():
                self._begin_again()
        except LochanError as error:
            self._calls.last_error = error.kind

    def _begin_again(self) -> None:
        """Forgets what is in memory; the next turn works from what is stored."""
        self._steps = self._run()
        self._cursors = {}
        self._search_ns = self._resume_ns = 0
        self._is_idle = self._is_open = False
        self._waiting = None

    def _fail(self, error: LochanError) -> None:
        self._begin_again()
        self._calls.last_error = error.kind
        self._resume_ns = self._now_ns() + int(self._sleep_ms(self._failures) * _NS_OF_MS)
        self._failures += 1

    def _run(self) -> Pauses:
        """The work: without an end."""
        while True:
            self._is_idle = False
            if not self._lease.hold():
                self._noted, self._cursors, self._search_ns = {}, {}, 0
                yield self._lease.pause_ms()
                continue
            if self._now_ns() >= self._search_ns:
                yield from self._search()
            else:
                yield from self._follow_noted()
            self._is_idle = True
            yield 0.0 if self._noted else self._idle_ms()

    def _idle_ms(self) -> float:
        until_search_ms = (self._search_ns - self._now_ns()) / _NS_OF_MS
        return max(0.0, until_search_ms)

    def _follow_noted(self) -> Pauses:
        """Delivers what this process has changed."""
        with self._lock:
            noted, self._noted = self._noted, {}
        for (_, name), context in noted.items():
            if not self._filter.accepts_repository(context.description.name):
                continue
            cursor = self._cursor_of(context)
            if cursor is not None:
                yield from self._follow(cursor, RefName(name))

    def _search(self) -> Pauses:
        """Delivers what is new in all repositories."""
        begin_ns = self._now_ns()
        self._followed_ns = 0
        with self._lock:
            self._noted = {}
        for name in self._source.names():
            self._lease.check()
            try:
                cursor = self._cursor_of(self._source.open(name))
                if cursor is not None:
                    yield from self._search_one(cursor)
            except (NotFound, NewerFormat, Corrupt) as error:
                # Of this repository; the others have their turn.
                self._calls.last_error = error.kind
                self._calls.is_failing = True
        # However long a receiver was away, the search itself was short.
        took_ms = (self._now_ns() - begin_ns - self._followed_ns) / _NS_OF_MS
        pause_ms = max(self._options.poll_ms, took_ms * EVENT_POLL_PAUSE_TIMES)
        self._search_ns = self._now_ns() + int(pause_ms * _NS_OF_MS)

    def _cursor_of(self, context: RepositoryContext) -> RepositoryCursor | None:
        """Returns the cursor of a repository; None if the filter excludes the repository."""
        cursor = self._cursors.get(context.instance)
        if cursor is None:
            cursor = RepositoryCursor(context, self._options.cursor)
            if len(self._cursors) >= EVENT_CURSORS_KEPT:
                self._cursors = {}
        is_new = not cursor.has_row and not cursor.load()
        if not self._filter.accepts_repository(context.description.name):
            if is_new:
                cursor.begin_excluded()
            elif not cursor.is_excluded:
                cursor.exclude(self._lease.fence)
            self._cursors[context.instance] = cursor
            return None
        if is_new:
            cursor.begin_at_creation(self._lease.fence)
        if cursor.is_excluded:
            cursor.replace(cursor.present(self._lease.fence))
        self._cursors[context.instance] = cursor
        return cursor

    def _search_one(self, cursor: RepositoryCursor) -> Pauses:
        """Delivers what is new in one repository; the steps are in `events/cursor.py`."""
        now_us = cursor.context.clock.now_us()
        place = cursor.detector.place()
        known = cursor.row.place
        age_us = self._options.age_s_max * _US_OF_S
        if now_us - cursor.row.complete_us > age_us:
            if cursor.find_missed(place, self._filter.accepts_reference).listed:
                yield from self._give_up(cursor)
                return
        touched = cursor.detector.touched(known, place)
        for name in cursor.detector.changed_since(
            known, place, cursor.positions.find_many, cursor.unknown
        ):
            begin_ns = self._now_ns()
            yield from self._follow(cursor, name)
            self._followed_ns += self._now_ns() - begin_ns
        self._lease.check()
        cursor.forget(touched, place)
        cursor.advance(place, now_us, self._lease.fence, age_us // EVENT_COMPLETE_PART)

    def _follow(self, cursor: RepositoryCursor, name: RefName) -> Pauses:
        """Delivers the changes of one name after its position."""
        context = cursor.context
        position = NamePosition(cursor, name, self._lease)
        row = cursor.fetch_row(name)
        if not self._filter.accepts_reference(name):
            if row is not None and is_behind(position.at, row):
                position.note(position_of(row))
            position.store()
            return
        stored_ns = self._now_ns()
        try:
            for one in replay(context, name, position.at, row):
                yield from self._report(one.change, position)
                position.note(one.after)
                late_ns = self._now_ns() - stored_ns
                if position.noted >= EVENT_CURSOR_CHANGES or late_ns > EVENT_CURSOR_MS * _NS_OF_MS:
                    position.store()
                    stored_ns = self._now_ns()
                yield 0.0
        except NewerFormat as error:
            # What is behind it waits for the upgrade, and other names do not wait for it.
            self._calls.last_error = error.kind
        except Corrupt as error:
            self._calls.last_error = error.kind
            yield from self._pass_over(cursor, position, name, row)
        except _Cancelled:
            position.store()
            raise
        position.store()

    def _report(self, change: Change, position: NamePosition) -> Pauses:
        """Hands the events of a change over."""
        types = self._filter.wanted_types(change)
        if not types:
            self._skipped += 1
            return
        # What an event shows must stay, whatever happens to this process.
        change.context.store.flush(change.epoch)
        for event in self._builder.build(change, types, self._filter.accepts_key):
            if self._filter.accepts(event):
                yield from self._deliver(event, position)
            else:
                self._rejected += 1

    def _give_up(self, cursor: RepositoryCursor) -> Pauses:
        """Begins at the present, after the listener has got the gap."""
        # Positions first: a change that comes between the two is in the gap, and delivered too.
        present = cursor.present(self._lease.fence)
        missed = cursor.find_missed(cursor.detector.place(), self._filter.accepts_reference)
        yield from self._deliver(gap_of_age(cursor, missed, self._builder.sent_by), None)
        self._lease.check()
        cursor.replace(present)

    def _pass_over(
        self,
        cursor: RepositoryCursor,
        position: NamePosition,
        name: RefName,
        row: ReferenceRow | None,
    ) -> Pauses:
        """Goes on behind a history that cannot be read, after the listener has got the gap."""
        place = cursor.detector.place()
        gap = gap_of_history(cursor, name, position.at, row, self._builder.sent_by)
        yield from self._deliver(gap, position)
        position.note(after_incarnation(place.sequence) if row is None else position_of(row))

    def _deliver(self, event: Event, position: NamePosition | None) -> Pauses:
        """Hands one event over; returns when the receiver has taken it, or refuses it as such."""
        attempts = 0
        self._waiting = event
        while True:
            if self._is_cancelled:
                raise _Cancelled
            self._lease.check()
            attempts += 1
            failure = self._attempt(event, attempts)
            if failure is None:
                self._delivered += 1
                break
            if isinstance(failure, EventRefused) and not isinstance(failure, ReceiverRefused):
                self._dead += 1
                self.dead_letters.append(DeadLetter(event, self._calls.last_error))
                break
            if position is not None:
                # So a crash during the pause repeats nothing.
                position.store()
            self._retried += 1
            yield self._pause_after(failure, attempts)
        self._is_open = False
        self._waiting = None

    def _attempt(self, event: Event, number: int) -> Exception | None:
        failures: list[Exception] = []

        def call() -> bool:
            failure = self._calls.attempt(event, number)
            if failure is not None:
                failures.append(failure)
            return failure is None

        self._observer.deliver(self.name, event, call)
        return failures[0] if failures else None

    def _pause_after(self, failure: Exception, attempts: int) -> float:
        """Returns for how long an event waits before the next attempt."""
        asked_ms = pause_after(failure)
        if attempts < self._options.attempts_max and not isinstance(failure, ReceiverRefused):
            return asked_ms + self._sleep_ms(attempts - 1)
        self._trips += not self._is_open
        self._is_open = True
        return max(float(self._options.breaker_ms), asked_ms)

    def _sleep_ms(self, before: int) -> float:
        longest_ms = min(
            self._options.sleep_first_ms * 2 ** min(before, 30), self._options.sleep_max_ms
        )
        return self._ports.random.between(longest_ms / 2, longest_ms)

    def _now_ns(self) -> int:
        return self._ports.clock.monotonic_ns()
