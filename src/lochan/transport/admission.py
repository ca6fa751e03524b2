"""The first half of a request: who calls, whether it is its turn, and which repository it names.

1. find out who calls: from memory, else from the store, in a thread if the store may block;
2. wait for its turn, where the caller or the repository has too much under way;
3. unpack the body, if it is packed: never for a client that is not known;
4. open the repository that the face has named.

A long body gets as far as step 1 before it is read (`BodyAdmission`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from lochan.access.policy import ANYONE, Principal
from lochan.base.errors import LochanError
from lochan.base.limits.http import GZIP_INLINE_BYTES_MAX
from lochan.service.pending_writes import PendingWrite
from lochan.transport.driver_context import DriverContext
from lochan.transport.error_boundary import attempt
from lochan.transport.exchange import LongWork, Request, Response
from lochan.transport.gzip_bodies import unpack
from lochan.transport.hygiene import Framing
from lochan.transport.quotas import BodyShare, Ticket
from lochan.transport.routes import Authentication, Found, Match

if TYPE_CHECKING:
    from lochan.service.repository import Repository
    from lochan.transport.driver import Driver

Reply = Callable[[Response], None]

Answer = Response | LochanError
"""What a request is answered with, before it is turned into bytes."""

Outcome = Answer | PendingWrite[Response] | LongWork
"""What a handler returned: an answer, a write to be published, or work that is left."""


class RequestAdmission(ABC):
    """The state of one request until its handler runs.

    Each step returns the answer, or None if the rest happens elsewhere; an error that it raises is
    the answer, too. So errors are caught in one place, and a step costs one call.
    """

    __slots__ = (
        "_began_ns",
        "_caller",
        "_context",
        "_driver",
        "_face",
        "_found_match",
        "_framing",
        "_match",
        "_reply",
        "_request",
        "_route",
        "_stream_owner",
        "_streaming",
        "_ticket",
        "_trace",
        "_waits_for_turn",
    )

    def __init__(
        self, driver: Driver, request: Request, framing: Framing, found: Found, reply: Reply
    ) -> None:
        self._driver = driver
        self._context = driver.context
        self._request = request
        self._framing = framing
        self._reply: Reply | None = reply
        self._face = found.face
        self._found_match = found.match
        self._caller = ANYONE
        self._ticket: Ticket | None = None
        self._waits_for_turn = False
        # The caller whose number of streams includes this one.
        self._stream_owner = ""
        self._streaming = False
        self._trace: Any = None
        self._route = "none"
        self._began_ns = 0

    @abstractmethod
    def _handle(self, repository: Repository | None) -> Answer | None:
        """Runs the handler."""

    @abstractmethod
    def _answer(self, outcome: Answer) -> None:
        """Answers with what the handler returned, or with an error."""

    @abstractmethod
    def _send(self, response: Response) -> None:
        """Answers at once."""

    def start(self) -> None:
        """Begins."""
        if self._context.observers.is_on:
            self._began_ns = perf_counter_ns()
        self._proceed(self._find)

    def _proceed(self, step: Callable[[], Answer | None]) -> None:
        answer = attempt(step)
        if answer is not None:
            self._answer(answer)

    def _leave(self) -> None:
        """Ends the request, however it ends; called once."""
        self._driver.under_way -= 1
        ticket = self._ticket
        if ticket is not None:
            self._ticket = None
            self._context.quotas.leave(ticket)
        if self._stream_owner and not self._streaming:
            self._leave_stream_quota()

    def _find(self) -> Answer | None:
        """Step 1."""
        match = self._found_match
        if isinstance(match, Response):
            # A refusal shows nothing that could be lost, so it needs no flush.
            self._route = "server"
            self._send(match)
            return None
        self._match = match
        context = self._context
        self._route = match.route.name
        if context.observers.tracer is not None:
            traceparent = self._framing.traceparent.decode("latin-1") or None
            self._trace = context.observers.tracer.begin(
                self._request.method, self._route, traceparent
            )
        authentication = self._face.authentication
        if authentication is None or match.route.is_open:
            return self._unpack()
        request = self._request
        caller = authentication.find_known(request, match)
        if caller is None:
            if _may_block(context, authentication):
                work = partial(authentication.authenticate, request, match)
                context.brief_pool.submit(work, self._authenticated, owner=request.origin)
                return None
            caller = authentication.authenticate(request, match)
        return self._admit(caller)

    def _authenticated(self, caller: Principal | LochanError) -> None:
        if isinstance(caller, LochanError):
            self._answer(caller)
        else:
            self._proceed(partial(self._admit, caller))

    def _admit(self, caller: Principal) -> Answer | None:
        """Step 2."""
        self._caller = caller
        name = caller.name
        if not name:
            return self._unpack()
        if self._reply is None:
            # The client is gone, and nothing has been done for it yet.
            self._leave()
            return None
        context, match = self._context, self._match
        quotas = context.quotas
        if match.route.streams:
            quotas.enter_stream(name)
            self._stream_owner = name
            return self._unpack()
        body_bytes = len(self._request.body)
        ticket = self._ticket = quotas.enter(name, match.repository, body_bytes, self._schedule)
        if ticket.is_running and not quotas.takes_turns(ticket):
            return self._unpack()
        self._waits_for_turn = True
        if ticket.is_running:
            self._schedule()
        return None

    def _schedule(self) -> None:
        """Lets the request go on, in the turn of its caller."""
        self._context.turns.add(self._caller.name, self._admitted)

    def _admitted(self) -> None:
        if self._waits_for_turn:
            self._waits_for_turn = False
            self._proceed(self._unpack)

    def _give_up_turn(self) -> None:
        """Ends a request that waits for its turn, because the client is gone."""
        if self._waits_for_turn:
            self._waits_for_turn = False
            self._leave()

    def _leave_stream(self) -> None:
        """Frees the slot of a stream."""
        self._driver.streams -= 1
        self._leave_stream_quota()

    def _leave_stream_quota(self) -> None:
        if self._stream_owner:
            self._context.quotas.leave_stream(self._stream_owner)
            self._stream_owner = ""

    def _unpack(self) -> Answer | None:
        """Step 3."""
        request = self._request
        if not self._framing.content_encoding or request.stream is not None:
            return self._open()
        packed = request.body
        bytes_max = min(self._context.request_bytes_max, self._match.route.body_bytes_max)
        if len(packed) > GZIP_INLINE_BYTES_MAX:
            work = partial(unpack, packed, bytes_max)
            self._context.long_pool.submit(work, self._unpacked, owner=self._caller.name)
            return None
        request.body = unpack(packed, bytes_max)
        return self._open()

    def _unpacked(self, body: bytes | LochanError) -> None:
        if isinstance(body, LochanError):
            self._answer(body)
            return
        self._request.body = body
        self._proceed(self._open)

    def _open(self) -> Answer | None:
        """Step 4."""
        name = self._match.repository
        if name is None:
            return self._handle(None)
        repository = self._driver.find_open(name)
        if repository is not None:
            return self._handle(repository)
        opening = partial(self._driver.open, name)
        self._context.brief_pool.submit(opening, self._opened, owner=self._caller.name)
        return None

    def _opened(self, repository: Repository | LochanError) -> None:
        if isinstance(repository, LochanError):
            self._answer(repository)
        else:
            self._proceed(partial(self._handle, repository))


class BodyAdmission:
    """A body that did not come with its headers: read for a known caller, within its share.

    `decided` is called once, now or later, with None or with the reason for a refusal; not after
    `release`.
    """

    __slots__ = ("_byte_count", "_context", "_decided", "_found", "_match", "_request", "_share")

    def __init__(
        self,
        context: DriverContext,
        request: Request,
        found: Found,
        match: Match,
        byte_count: int,
    ) -> None:
        self._context = context
        self._request = request
        self._found = found
        self._match = match
        self._byte_count = byte_count
        self._decided: Callable[[LochanError | None], None] | None = None
        self._share: BodyShare | None = None

    def start(self, decided: Callable[[LochanError | None], None]) -> None:
        """Begins."""
        self._decided = decided
        failure = attempt(self._find)
        if failure is not None:
            self._decide(failure)

    def release(self) -> None:
        """Gives back what was taken, or stops waiting for it."""
        self._decided = None
        if self._share is not None:
            self._context.quotas.release_body(self._share)
            self._share = None

    def _find(self) -> None:
        authentication = self._found.face.authentication
        if authentication is None or self._match.route.is_open:
            self._decide(None)
            return
        request, match = self._request, self._match
        caller = authentication.find_known(request, match)
        if caller is None:
            if _may_block(self._context, authentication):
                work = partial(authentication.authenticate, request, match)
                self._context.brief_pool.submit(work, self._known, owner=request.origin)
                return
            caller = authentication.authenticate(request, match)
        self._known(caller)

    def _known(self, caller: Principal | LochanError) -> None:
        if isinstance(caller, LochanError):
            self._decide(caller)
        elif not caller.name:
            self._decide(None)
        elif self._decided is not None:
            granted = partial(self._decide, None)
            self._share = self._context.quotas.reserve_body(caller.name, self._byte_count, granted)

    def _decide(self, failure: LochanError | None) -> None:
        decided, self._decided = self._decided, None
        if decided is not None:
            decided(failure)


def _may_block(context: DriverContext, authentication: Authentication) -> bool:
    """Returns whether finding out who calls may keep the loop waiting."""
    return authentication.waits or (authentication.reads_store and not context.inline)
