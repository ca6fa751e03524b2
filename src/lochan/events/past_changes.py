"""Changes between a token and the present of a feed, made again from the store.

    feed = feeds.attend(context, scope)
    past = PastChanges(feed, start)
    ...                                    # its changes, one after the other
    number, delivered = past.number, past.target    # the feed has what follows

The positions of a feed are those of the store at some moment, each behind a whole change. So what
is between a token and them is a number of whole changes, and the first change of the feed from
`number` on is the first that is not among them: none is missing and none comes twice.

A token may come from another server, whose feed has read further than this one. The feed reads
before its positions are taken, so it is never behind a token. It need not read for a token that is
where the feed is: so a thousand followers that come back after a restart cost no reading each.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lochan.base.names import RefName
from lochan.events.changes import Change
from lochan.events.detector import ChangeDetector
from lochan.events.feeds import Feed
from lochan.events.replay import replay
from lochan.events.stream_tokens import Delivered, StreamStart


class PastChange(msgspec.Struct, frozen=True):
    """A change, and what is delivered before and after it.

    Its events up to `skipped_to` were received already; empty if none was.
    """

    name: RefName
    change: Change
    before: Delivered
    after: Delivered
    skipped_to: str


class PastChanges:
    """What a follower gets before it takes the changes of its feed; iterate once."""

    def __init__(self, feed: Feed, start: StreamStart) -> None:
        self._feed = feed
        self._start = start
        self.number, self.target = feed.place()
        if not self._is_at(self.target):
            # The token may be younger than what the feed has read.
            feed.turn(whole=True)
            self.number, self.target = feed.place()

    def __iter__(self) -> Iterator[PastChange]:
        target, start = self.target, self._start
        names = self._names()
        delivered = start.delivered(names)
        for name in names:
            skipped_to = start.skipped_to(name)
            for change in self._of(name, delivered, target):
                yield msgspec.structs.replace(change, skipped_to=skipped_to)
                delivered, skipped_to = change.after, ""

    def _is_at(self, target: Delivered) -> bool:
        """Returns whether a token is where the feed is; in the middle of a change it is not."""
        start = self._start
        if start.begun or len(start.by_digest) != len(target.positions):
            return False
        if self._feed.scope.is_pattern and start.index != target.index:
            return False
        return start.delivered(list(target.positions)).positions == target.positions

    def _names(self) -> list[RefName]:
        """Returns the names of the scope that may have changed."""
        scope = self._feed.scope
        if not scope.is_pattern:
            return [scope.name]
        detector = ChangeDetector(self._feed.context)
        touched = detector.touched(self._start.index, self.target.index)
        return sorted({*self.target.positions, *filter(scope.matches, touched)})

    def _of(self, name: RefName, delivered: Delivered, target: Delivered) -> Iterator[PastChange]:
        at, end = delivered.position(name), target.position(name)
        if at == end:
            return
        context = self._feed.context
        found = context.references.fetch(name)
        for one in replay(context, name, at, None if found is None else found.row):
            if (one.after.incarnation, one.after.version) > (end.incarnation, end.version):
                # The end is before an incarnation: the feed has what comes behind it.
                return
            after = delivered.moved(name, one.after)
            yield PastChange(name, one.change, delivered, after, "")
            delivered = after
            if one.after == end:
                return
