"""The route of the event stream: `/events/v1`, or `/r/{name}/events/v1` for another repository."""

from __future__ import annotations

from lochan.base.errors import LochanError
from lochan.events.feeds import EventFeeds
from lochan.faces.answers import problem_of
from lochan.faces.events.follower import Follower, HeldFeed, open_feed
from lochan.faces.events.params import read_query
from lochan.faces.events.signals import FollowerSignals
from lochan.faces.segments import Chosen, PathTable, RepositoryFace, build_routes
from lochan.transport import server_sent_events
from lochan.transport.exchange import Exchange, Request, Response
from lochan.transport.routes import Authentication, Match, Route
from lochan.wire.operations_events import EVENTS_PREFIX, OPERATIONS_EVENTS
from lochan.wire.problems import FILE_ERROR_CODES


class EventsFace(RepositoryFace):
    """Streams of events, one for each request."""

    prefix = EVENTS_PREFIX.encode("ascii")

    def __init__(
        self,
        default_repository: str,
        feeds: EventFeeds,
        authentication: Authentication | None = None,
        signals: FollowerSignals | None = None,
    ) -> None:
        super().__init__(default_repository, authentication)
        self._feeds = feeds
        self._signals = signals or FollowerSignals()
        feeds.report = self._signals.report
        self._route = Route("followEvents", self.follow, streams=True)
        streams = {"followEvents": self._route}
        self._paths = PathTable(build_routes(OPERATIONS_EVENTS, {}, streams=streams))

    def find(self, method: str, rest: bytes) -> Chosen | None:  # noqa: ARG002 - Nessie needs it
        """Returns the operations at the raw rest of a path, and the decoded values in it."""
        return self._paths.find(rest)

    def problem(self, request: Request, error: LochanError) -> Response:
        """Returns the answer to an error."""
        return problem_of(request, error, codes=FILE_ERROR_CODES)

    async def follow(self, exchange: Exchange) -> Response:
        """Begins a stream; it is opened in a thread, because that reads the store."""
        query = read_query(exchange)
        held = HeldFeed(self._feeds)
        try:
            opened = await exchange.run(lambda: open_feed(exchange, query, held))
        except BaseException:
            held.release()
            raise
        match = Match(self._route, exchange.params, exchange.repository.name)
        follower = Follower(exchange, query, opened, self._feeds, self._signals, self, match)
        return server_sent_events.follow(follower.parts(), held.release)
