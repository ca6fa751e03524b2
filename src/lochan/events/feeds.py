"""Reads the changes of references once for all of their followers.

A *feed* is the reader of one scope in one repository: one reference, or those that match a pattern.
It knows how far it has read each of them, reads what is new from history (`replay.py`), makes the
events, and keeps the last changes in memory. Followers take them from there, each at its own speed:
a follower is a number, that of the next change. One that is so slow that its change is not kept any
more goes on from the store, from its token (`past_changes.py`).

1. `EventFeeds.attend` makes the feed of a scope if there is none: it begins at the present. From
   the first one on, the changes of its repository are observed.
2. A change that this process makes wakes the feed (`settle`), and so does an interval, for changes
   that other servers make. Both only lead to a reading: what is reported comes from history, so a
   change that wakes nothing is found by the interval, and one that wakes twice is reported once.
3. `EventFeeds.turn` reads. Positions move only when their change is kept, so a reading that fails
   in the middle is done again from there.
4. The last follower that leaves ends the feed.

One reading costs one call of the store for the rows; for a pattern one more for the row of the
index of names, and where that has moved the reads of `ChangeDetector.touched`. Each change costs
its own.

Everything is for any number of threads; only one reads a feed at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import islice
from typing import Final

import msgspec

from lochan.base.errors import Exhausted, Invalid, LochanError, Unavailable, Unknown
from lochan.base.keys import Universe
from lochan.base.limits.events import (
    STREAM_BYTES_MAX,
    STREAM_CHANGES_MAX,
    STREAM_FOLLOWERS_MAX,
    STREAM_POLL_MS,
    STREAM_REFERENCES_MAX,
    STREAM_SHARED_EVENTS_MAX,
)
from lochan.base.limits.requests import PAGE_ENTRIES_MAX
from lochan.base.names import RefName
from lochan.base.ports import Clock, Lock, NewLock
from lochan.codec.cursors import IndexPlace, ReplayPosition
from lochan.codec.rows import ReferenceElement, ReferenceRow
from lochan.events.builder import EventBuilder
from lochan.events.changes import Change
from lochan.events.detector import ChangeDetector, place_of_index
from lochan.events.replay import Replayed, after_incarnation, position_of, replay
from lochan.events.stream_tokens import Delivered, StreamScope
from lochan.kernel.context import RepositoryContext
from lochan.kernel.name_index import NameIndex
from lochan.kernel.settled import SettledChange
from lochan.kernel.views import CommitView
from lochan.model.events import CHANGE_TYPES, Event

_NS_OF_MS: Final = 1_000_000


class SharedEvent(msgspec.Struct, frozen=True):
    """An event that was made once, and its JSON."""

    event: Event
    data: bytes


class FedChange(msgspec.Struct, frozen=True):
    """A change that waits for followers; its events are None if they are too many to be shared."""

    name: RefName
    change: Change
    before: Delivered
    after: Delivered
    events: tuple[SharedEvent, ...] | None
    size: int
    shared: dict[str, bytes]
    """What followers that get the same bytes have made of it."""


Encode = Callable[[Event], bytes]


class Feed:
    """The reader of one scope."""

    def __init__(
        self,
        context: RepositoryContext,
        scope: StreamScope,
        builder: EventBuilder,
        encode: Encode,
        new_lock: NewLock,
    ) -> None:
        self.context = context
        self.scope = scope
        self.followers = 0
        self.failure: LochanError | None = None
        """Why nothing can be read any more, such as too many references."""
        self._builder = builder
        self._encode = encode
        self._index = NameIndex(context)
        self._reading = new_lock()
        self._lock = new_lock()
        self._delivered: Delivered | None = None
        self._changes: deque[FedChange] = deque()
        self._first = 0
        self._woken: set[RefName] = set()
        self.size = 0

    def start(self) -> None:
        """Begins at the present, unless it has begun."""
        with self._reading:
            if self._delivered is None:
                self._delivered = self._present()

    def place(self) -> tuple[int, Delivered]:
        """Returns the number of the next change, and what is delivered before it."""
        with self._lock:
            delivered = self._delivered
            if delivered is None:
                raise Unavailable("the feed has not begun")
            return self._first + len(self._changes), delivered

    def changes(self, number: int) -> list[FedChange] | None:
        """Returns the changes from a number on; None if that one is not kept any more."""
        if self.failure is not None:
            raise self.failure
        with self._lock:
            if number < self._first:
                return None
            return list(islice(self._changes, number - self._first, None))

    def wake(self, name: RefName) -> bool:
        """Notes that a reference has changed; returns whether that matters here."""
        if not self.scope.matches(name):
            return False
        with self._lock:
            self._woken.add(name)
        return True

    def turn(self, *, whole: bool) -> bool:
        """Reads what is new of the references that woke it, or of all; whether there was anything.

        After an error everything that was not read stays to be read.
        """
        with self._reading:
            if self._delivered is None or self.failure is not None:
                return False
            before = self.place()[0]
            with self._lock:
                woken, self._woken = self._woken, set()
            try:
                if whole:
                    self._read_all()
                elif woken:
                    self._read(sorted(woken))
            except (Unavailable, Unknown, Exhausted):
                with self._lock:
                    self._woken |= woken
                raise
            except LochanError as error:
                # It would fail again: followers get the error, and begin elsewhere or report it.
                self.failure = error
                raise
            return self.place()[0] != before

    def _read_all(self) -> None:
        """Reads every reference of the scope, and takes up those that are new."""
        _, delivered = self.place()
        if not self.scope.is_pattern:
            self._read([self.scope.name])
            return
        head = self._index.head()
        now = place_of_index(head)
        touched = ChangeDetector(self.context).touched(delivered.index, now)
        names = {*delivered.positions, *filter(self.scope.matches, touched)}
        self._read(sorted(names))
        if now != delivered.index:
            self._take_index(head, now, names)

    def _take_index(self, head: CommitView, now: IndexPlace, names: Iterable[RefName]) -> None:
        """Moves on in the index of names, and forgets what it does not list any more.

        A name that is listed, but has no row yet, keeps its position: its creation is not finished.
        """
        listed = self._index.find_many(sorted(names), head)
        _, delivered = self.place()
        kept: dict[RefName, ReplayPosition] = {}
        for name in names:
            at = delivered.position(name)
            if name in listed or at.incarnation > now.sequence:
                kept[name] = at
        _check_count(kept, self.scope)
        with self._lock:
            self._delivered = Delivered(now, kept)

    def _read(self, names: Sequence[RefName]) -> None:
        # Positions are taken before the rows are read, so that no row is older than its position.
        _, delivered = self.place()
        rows = self.context.references.fetch_many(names)
        for name, found in zip(names, rows, strict=True):
            row = None if found is None else found.row
            for one in replay(self.context, name, delivered.position(name), row):
                self._add(name, one)
        if self.scope.is_pattern:
            _check_count(self.place()[1].positions, self.scope)

    def _add(self, name: RefName, replayed: Replayed) -> None:
        """Keeps a change: its events are made before its position moves."""
        change = replayed.change
        built = self._builder.build(change, CHANGE_TYPES, lambda _: True)
        made = tuple(islice(built, STREAM_SHARED_EVENTS_MAX + 1))
        shared: tuple[SharedEvent, ...] | None = None
        if len(made) <= STREAM_SHARED_EVENTS_MAX:
            shared = tuple([SharedEvent(one, self._encode(one)) for one in made])
        size = sum([len(one.data) for one in shared or ()])
        with self._lock:
            before = self._delivered
            if before is None:
                return
            after = self._delivered = before.moved(name, replayed.after)
            fed = FedChange(name, change, before, after, shared, size, {})
            self._changes.append(fed)
            self.size += size
            if len(self._changes) > STREAM_CHANGES_MAX:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        self.size -= self._changes.popleft().size
        self._first += 1

    def shrink(self, bytes_max: int) -> None:
        """Forgets the oldest changes until what is kept has at most that size."""
        with self._lock:
            while self._changes and self.size > bytes_max:
                self._drop_oldest()

    def _present(self) -> Delivered:
        """Returns the positions behind everything that has happened so far.

        The index is read before the rows: what is created after that is found later.
        """
        head = self._index.head()
        listed = self._listed(head)
        _check_count(listed, self.scope)
        names = sorted(listed)
        rows = self.context.references.fetch_many(names)
        positions = {
            name: _present_position(listed[name], None if found is None else found.row)
            for name, found in zip(names, rows, strict=True)
        }
        return Delivered(place_of_index(head), positions)

    def _listed(self, head: CommitView) -> dict[RefName, ReferenceElement]:
        if not self.scope.is_pattern:
            return self._index.find_many([self.scope.name], head)
        found: list[RefName] = []
        first = bytes((Universe.FILES,))
        stop = bytes((Universe.FILES + 1,))
        while page := self._index.page(first, stop, PAGE_ENTRIES_MAX):
            found += [name for name, _ in page if self.scope.matches(name)]
            first = bytes((Universe.FILES,)) + page[-1][0].encode() + b"\0"
            if len(found) > STREAM_REFERENCES_MAX:
                break
        return self._index.find_many(found, head)


def _present_position(element: ReferenceElement, row: ReferenceRow | None) -> ReplayPosition:
    """Returns the position behind what a row shows; a creation that is not finished is ahead."""
    if row is None or row.incarnation < element.incarnation:
        return after_incarnation(element.incarnation - 1)
    return position_of(row)


def _check_count(names: Sized, scope: StreamScope) -> None:
    if len(names) > STREAM_REFERENCES_MAX:
        raise Invalid(
            f"{scope.text[:80]!r} matches more than {STREAM_REFERENCES_MAX} references, which is "
            "the limit of one stream; follow fewer, in several streams if need be"
        )


class EventFeeds:
    """The feeds of a server."""

    def __init__(
        self,
        clock: Clock,
        new_lock: NewLock,
        builder: EventBuilder,
        encode: Encode,
        *,
        poll_ms: int = STREAM_POLL_MS,
    ) -> None:
        self._clock = clock
        self._new_lock = new_lock
        self._builder = builder
        self._encode = encode
        self._poll_ms = poll_ms
        self._lock: Lock = new_lock()
        self._feeds: dict[tuple[bytes, str], Feed] = {}
        self._polled_ns = clock.monotonic_ns()
        self.followers = 0
        self.wake: Callable[[], None] = lambda: None
        """Called when there is something to read; the driver of the reader sets it."""
        self.report: Callable[[Sequence[Feed]], None] = lambda _: None
        """Called with the feeds that have something to take; who wakes followers sets it."""

    @property
    def builder(self) -> EventBuilder:
        """What makes events of changes."""
        return self._builder

    def attend(self, context: RepositoryContext, scope: StreamScope) -> Feed:
        """Returns the feed of a scope for one more follower, which has to leave; reads the store.

        Exhausted if there are too many.
        """
        key = (context.instance, scope.text)
        with self._lock:
            if self.followers >= STREAM_FOLLOWERS_MAX:
                text = f"{self.followers} streams of events are open; try again later"
                raise Exhausted(text, public=text)
            feed = self._feeds.get(key)
            if feed is None or feed.failure is not None:
                feed = Feed(context, scope, self._builder, self._encode, self._new_lock)
                self._feeds = {**self._feeds, key: feed}
            feed.followers += 1
            self.followers += 1
        if context.observer is None:
            # Until now nothing had to be reported, and writers paid nothing for it.
            context.observer = self
        try:
            feed.start()
        except LochanError:
            self.leave(feed)
            raise
        self.wake()
        return feed

    def leave(self, feed: Feed) -> None:
        """Ends one follower; the last one ends the feed."""
        with self._lock:
            self.followers -= 1
            feed.followers -= 1
            if not feed.followers:
                self._feeds = {key: one for key, one in self._feeds.items() if one is not feed}

    def begin(self, context: RepositoryContext, name: str) -> int:  # noqa: ARG002 - of a protocol
        """Returns 0: the order of changes is that of history."""
        return 0

    def end(self, context: RepositoryContext, name: str, number: int) -> None:
        """Does nothing."""

    def settle(self, context: RepositoryContext, change: SettledChange) -> None:
        """Takes a change that this process has made; neither waits nor raises."""
        found = False
        for (instance, _), feed in self._feeds.items():
            if instance == context.instance:
                found |= feed.wake(RefName(change.after.name))
        if found:
            self.wake()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to read, now and later."""
        return not self._feeds

    def turn(self) -> bool:
        """Reads what is new; returns whether followers have something to take.

        An error is raised after all feeds had their turn.
        """
        now_ns = self._clock.monotonic_ns()
        whole = now_ns - self._polled_ns >= self._poll_ms * _NS_OF_MS
        if whole:
            self._polled_ns = now_ns
        changed: list[Feed] = []
        failure: LochanError | None = None
        feeds = list(self._feeds.values())
        for feed in feeds:
            try:
                if feed.turn(whole=whole):
                    changed.append(feed)
            except LochanError as error:
                failure = error
                changed.append(feed)
        if sum([feed.size for feed in feeds]) > STREAM_BYTES_MAX:
            for feed in feeds:
                feed.shrink(STREAM_BYTES_MAX // len(feeds))
        if changed:
            self.report(changed)
        if failure is not None:
            raise failure
        return bool(changed)
