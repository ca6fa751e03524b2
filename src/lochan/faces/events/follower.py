"""One follower: what it gets of the past and of the present, each piece judged anew.

1. *Past*: with a token, or a time, the changes between it and the present of the feed are made
   again from the store, in threads, a few at a time.
2. *Present*: the follower takes the changes of its feed as they come. Events are made and encoded
   once; a follower without a filter, whose caller may see everything, gets the same bytes as all
   others. If it is so slow that its next change is not kept any more, its stream ends: the client
   connects again with its token, and begins with the past.
3. Before each piece the caller is authenticated again, from memory in most cases. So a right that
   is taken away counts for a stream as soon as it counts for a request, and the stream of a caller
   that is not known any more ends.

A stream that ends for a reason sends a last message `problem`, with the body of an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from threading import Lock

import msgspec

from lochan.access.policy import Call
from lochan.base.errors import Invalid, LochanError
from lochan.base.limits.events import (
    STREAM_EVENT_BYTES_MAX,
    STREAM_PAST_EVENTS,
    STREAM_PIECE_BYTES,
)
from lochan.base.names import RefName
from lochan.events.changes import Change
from lochan.events.feeds import EventFeeds, FedChange, Feed
from lochan.events.past_changes import PastChanges
from lochan.events.stream_tokens import Delivered, StreamScope, StreamStart, StreamTokens
from lochan.faces.calls import read_call
from lochan.faces.events.params import StreamQuery
from lochan.faces.events.signals import FollowerSignals
from lochan.model.events import CHANGE_TYPES, Event
from lochan.service.event_streams import EventRights, ShownEvent
from lochan.transport import server_sent_events
from lochan.transport.exchange import Exchange
from lochan.transport.routes import Face, Match
from lochan.wire.events import encode_event

_WHOLE = "whole"


class HeldFeed:
    """The part that one follower has in a feed; given back once, whatever happens in between."""

    def __init__(self, feeds: EventFeeds) -> None:
        self._feeds = feeds
        self._lock = Lock()
        self._feed: Feed | None = None
        self._is_released = False

    def take(self, feed: Feed) -> None:
        """Takes a feed; gives it back at once if the follower has left meanwhile."""
        with self._lock:
            self._feed = feed
            late = self._is_released
        if late:
            self._feeds.leave(feed)

    def attend(self, exchange: Exchange, scope: StreamScope) -> Feed:
        """Returns the feed of a scope."""
        feed = self._feeds.attend(exchange.repository.context, scope)
        self.take(feed)
        return feed

    def release(self) -> None:
        """Gives the feed back."""
        with self._lock:
            feed = None if self._is_released else self._feed
            self._is_released = True
        if feed is not None:
            self._feeds.leave(feed)


class OpenedFeed(msgspec.Struct, frozen=True):
    """A feed, and where a follower begins in it."""

    feed: Feed
    tokens: StreamTokens
    number: int
    delivered: Delivered
    past: PastChanges | None


def open_feed(exchange: Exchange, query: StreamQuery, held: HeldFeed) -> OpenedFeed:
    """Decides on a stream, and finds where it begins; reads the store."""
    call, streams = read_call(exchange), exchange.repository.event_streams
    scope = streams.scope(call, query.reference, resumes=bool(query.token))
    tokens = StreamTokens(exchange.repository.info.token_key, scope)
    start: StreamStart | None = None
    if query.token:
        start = tokens.read(query.token)
    if query.since_us is not None and scope.is_pattern:
        raise Invalid("a stream that begins at a time has one reference and no pattern")
    feed = held.attend(exchange, scope)
    if query.since_us is not None:
        position = streams.position_at(call, scope.name, query.since_us)
        start = StreamStart.behind(scope.name, position, feed.place()[1].index)
    if start is None:
        return OpenedFeed(feed, tokens, *feed.place(), None)
    past = PastChanges(feed, start)
    return OpenedFeed(feed, tokens, past.number, past.target, past)


class Follower:
    """A stream that was opened; its parts are asked for as fast as the client takes them."""

    def __init__(
        self,
        exchange: Exchange,
        query: StreamQuery,
        opened: OpenedFeed,
        feeds: EventFeeds,
        signals: FollowerSignals,
        face: Face,
        match: Match,
    ) -> None:
        self._exchange = exchange
        self._streams = exchange.repository.event_streams
        self._filter = query.filter
        self._ends = query.ends
        self._opened = opened
        self._builder = feeds.builder
        self._signals = signals
        self._face = face
        self._match = match
        self._caller = exchange.caller
        self._call: Call = read_call(exchange)
        self._reads_all: bool | None = None
        self._rights: dict[RefName, EventRights] = {}
        # What the client has as its position.
        self._sent = ""
        # What was read of the past, in whole changes.
        self._passed: Delivered | None = None

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yields the messages."""
        try:
            if self._opened.past is not None:
                async for piece in self._pieces(self._past_messages(self._opened.past)):
                    yield piece
            number = self._opened.number
            yield self._position(self._opened.delivered)
            while not self._ends:
                await self._authenticate()
                changes = self._opened.feed.changes(number)
                if changes is None:
                    return
                if not changes:
                    await self._signals.wait(self._opened.feed)
                    await self._authenticate()
                    present, delivered = self._opened.feed.place()
                    if present == number:
                        yield self._position(delivered)
                    continue
                for change in changes:
                    number += 1
                    if change.events is None:
                        large = self._messages(
                            change.name, change.change, change.before, change.after
                        )
                        async for piece in self._pieces(large):
                            yield piece
                    elif piece := self._shared(change):
                        yield piece
        except LochanError as error:
            yield self._problem(error)

    def _problem(self, error: LochanError) -> bytes:
        answer = self._face.problem(self._exchange.request, error)
        return server_sent_events.encode_event(answer.body.decode(), "problem")

    async def _authenticate(self) -> None:
        """Finds out who the caller is now, and what it may do; raises if it is not known."""
        authentication, request = self._face.authentication, self._exchange.request
        if authentication is None:
            return
        caller = authentication.find_known(request, self._match)
        if caller is None:
            run = self._exchange.run if authentication.waits else self._exchange.run_brief
            caller = await run(partial(authentication.authenticate, request, self._match))
        if caller is self._caller:
            return
        self._caller = caller
        self._call = read_call(msgspec.structs.replace(self._exchange, caller=caller))
        self._reads_all = None
        self._rights = {}
        self._streams.scope(self._call, self._opened.feed.scope.text, resumes=True)

    def _rights_on(self, name: RefName) -> EventRights:
        found = self._rights.get(name)
        if found is None:
            found = self._rights[name] = self._streams.rights(self._call, name)
        return found

    def _shown(self, name: RefName, event: Event) -> ShownEvent | None:
        """Returns an event as this follower gets it; None if it does not."""
        if self._filter is not None and not self._filter.accepts(event):
            return None
        return self._streams.shown(self._call, self._rights_on(name), event)

    def _shared(self, change: FedChange) -> bytes:
        """Returns the messages of a change whose events were made once."""
        whole = self._filter is None and self._rights_on(change.name).is_whole
        if whole and self._sees_positions():
            found = change.shared.get(_WHOLE)
            if found is None:
                shown = [(ShownEvent(one.event), one.data) for one in change.events or ()]
                found = change.shared[_WHOLE] = b"".join(self._lines(change, shown))
            return found
        chosen: list[tuple[ShownEvent, bytes]] = []
        for one in change.events or ():
            event = self._shown(change.name, one.event)
            if event is not None:
                unchanged = event.event is one.event and not event.left_out
                chosen.append((event, one.data if unchanged else _encode(event)))
        return b"".join(self._lines(change, chosen))

    def _lines(
        self, change: FedChange, shown: Sequence[tuple[ShownEvent, bytes]]
    ) -> Iterator[bytes]:
        """Yields the messages of the events that are shown of a change."""
        ids = _ChangeIds(self._token, change.name, change.before, change.after)
        for at, (one, data) in enumerate(shown, 1):
            event_id = ids.last() if at == len(shown) else ids.of(one.event)
            yield server_sent_events.encode_line(one.event.type, event_id, data)

    def _past_messages(self, past: PastChanges) -> Iterator[bytes]:
        """Yields the messages of the changes before the present; nothing for what is not sent."""
        for one in past:
            yield from self._messages(one.name, one.change, one.before, one.after, one.skipped_to)
            self._passed = one.after
            yield b""

    def _messages(
        self,
        name: RefName,
        change: Change,
        before: Delivered,
        after: Delivered,
        skipped_to: str = "",
    ) -> Iterator[bytes]:
        """Yields the messages of one change, of any size; without those that were received.

        For each event that is not sent it yields nothing, so that there is an end to each turn.
        """
        if skipped_to and not any(one.id == skipped_to for one in self._events(change)):
            # The filter was another one then.
            skipped_to = ""
        ids = _ChangeIds(self._token, name, before, after)
        waiting: ShownEvent | None = None
        for event in self._events(change):
            if skipped_to:
                skipped_to = "" if event.id == skipped_to else skipped_to
                yield b""
                continue
            shown = self._shown(name, event)
            if shown is None:
                yield b""
                continue
            if waiting is not None:
                yield _line(waiting, ids.of(waiting.event))
            waiting = shown
        if waiting is not None:
            yield _line(waiting, ids.last())

    def _events(self, change: Change) -> Iterator[Event]:
        wanted = self._filter
        if wanted is None:
            return self._builder.build(change, CHANGE_TYPES, lambda _: True)
        return self._builder.build(change, wanted.wanted_types(change), wanted.accepts_key)

    async def _pieces(self, messages: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yields messages that are made in threads, a few in each turn.

        After a turn without any the client gets its position, and knows that the stream is alive.
        """
        while True:
            await self._authenticate()
            piece, is_over = await self._exchange.run(partial(_take_piece, messages))
            if piece:
                yield piece
            if is_over:
                return
            if not piece:
                passed = self._passed
                yield server_sent_events.KEEP_ALIVE if passed is None else self._position(passed)

    def _position(self, delivered: Delivered) -> bytes:
        """Returns what moves the position of the client, or only shows that the stream is alive."""
        token = self._token(delivered, None)
        if token == self._sent:
            return server_sent_events.KEEP_ALIVE
        self._sent = token
        return server_sent_events.encode_position(token)

    def _token(self, delivered: Delivered, begun: RefName | None) -> str:
        return self._opened.tokens.make(self._visible(delivered), begun)

    def _visible(self, delivered: Delivered) -> Delivered:
        """Leaves out the positions of references whose log the caller may not read."""
        if self._sees_positions():
            return delivered
        positions = {
            name: at
            for name, at in delivered.positions.items()
            if self._streams.reads_log(self._call, name)
        }
        return Delivered(delivered.index, positions)

    def _sees_positions(self) -> bool:
        if not self._opened.feed.scope.is_pattern:
            return True
        if self._reads_all is None:
            self._reads_all = self._streams.reads_every_log(self._call)
        return self._reads_all


class _ChangeIds:
    """The ids of the messages of one change, with which a stream goes on behind each."""

    def __init__(
        self,
        make: Callable[[Delivered, RefName | None], str],
        name: RefName,
        before: Delivered,
        after: Delivered,
    ) -> None:
        self._make = make
        self._name = name
        self._before = before
        self._after = after
        self._begun = ""

    def of(self, event: Event) -> str:
        """Returns the id of an event that others follow."""
        self._begun = self._begun or self._make(self._before, self._name)
        return f"{self._begun}.{event.id}"

    def last(self) -> str:
        """Returns the id of the last event."""
        return self._make(self._after, None)


def _line(shown: ShownEvent, event_id: str) -> bytes:
    return server_sent_events.encode_line(shown.event.type, event_id, _encode(shown))


def _encode(shown: ShownEvent) -> bytes:
    return encode_event(shown.event, STREAM_EVENT_BYTES_MAX, shown.left_out)


def _take_piece(messages: Iterator[bytes]) -> tuple[bytes, bool]:
    """Returns the messages of some events, and whether there are no more."""
    found: list[bytes] = []
    size = 0
    for taken, message in enumerate(messages, 1):
        if message:
            found.append(message)
            size += len(message)
        if taken >= STREAM_PAST_EVENTS or size >= STREAM_PIECE_BYTES:
            return b"".join(found), False
    return b"".join(found), True
